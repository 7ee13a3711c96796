/* sort, argsort, partition, argpartition and topk along an axis, for every dtype and layout.
 *
 * Called by the core. A lane is read into dense memory as keys (sort_keys.h), sorted there (sort_radix.h) and
 * written out. Order: NaN last, -0 equal to 0, complex numbers by real, then imaginary part; equal elements
 * keep their order. Lanes are shared out among the threads; a single long one is sorted by all of them.
 */
#include <atomic>
#include <cstring>

#include "sort_network.h"
#include "sort_select.h"
#include "strided.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

/* The lanes of the input and of the output. */
struct Lanes {
  int64_t count;
  int64_t length;     /* of an input lane */
  int64_t stride;     /* along an input lane */
  int64_t out_stride; /* along an output lane */
  Walk<2> starts;

  Lanes(const mlxc_view* a, const mlxc_view* out, int axis) {
    int64_t shape[MLXC_MAX_NDIM];
    for (int i = 0; i < a->ndim; i++) shape[i] = i == axis ? 1 : a->shape[i];
    const int64_t* strides[2] = {a->strides, out->strides};
    starts = make_walk<2>(a->ndim, shape, strides);
    count = starts.rows * starts.inner;
    /* A 0-d array is one lane of one element. */
    length = a->ndim > 0 ? a->shape[axis] : 1;
    stride = a->ndim > 0 ? a->strides[axis] : 1;
    out_stride = a->ndim > 0 ? out->strides[axis] : 1;
  }
};

/* Calls fn(room, chunks, from, to) for every lane, with room to sort `length` elements of type E. */
template <class E, class F>
mlxc_error* for_each_lane(const Lanes& lanes, const F& fn) {
  const bool threaded = lanes.count < host->thread_count();
  const int64_t chunks = count_chunks(lanes.length, threaded);
  const size_t bytes = SortRoom<E>::bytes(lanes.length, chunks);
  std::atomic<bool> failed{false};
  auto run = [&](int64_t begin, int64_t end) {
    Scratch scratch(bytes);
    if (!scratch.ok()) {
      failed.store(true);
      return;
    }
    const SortRoom<E> room(scratch.as<void>(), lanes.length);
    Cursor<2> cursor(lanes.starts, begin / lanes.starts.inner);
    int64_t column = begin % lanes.starts.inner;
    for (int64_t i = begin; i < end; i++) {
      fn(room, chunks, cursor.offset[0] + column * lanes.starts.inner_stride(0),
         cursor.offset[1] + column * lanes.starts.inner_stride(1));
      if (++column == lanes.starts.inner) {
        column = 0;
        cursor.next();
      }
    }
  };
  /* Sorting an element costs about as much as moving 64 bytes. */
  parallel_for(lanes.count, chunks > 1 ? lanes.count : grain_for_bytes(lanes.length * 64), run);
  return failed.load() ? make_memory_error(bytes) : nullptr;
}

/* Calls fn(begin, end) over the elements of one lane: on all threads if it is sorted in several chunks. */
template <class F>
void for_each_piece(int64_t n, int64_t chunks, const F& fn) {
  parallel_for(n, (n + chunks - 1) / chunks, fn);
}

/* Whether there are enough short lanes to sort them side by side. */
template <class E>
bool fits_network(const Lanes& lanes) {
  return is_network_length<E>(lanes.length) && 2 * lanes.count >= kColumns<E>;
}

/* Sorts lanes side by side. load(from, column) fills a column, whose elements are kColumns apart; store(from,
 * to, keys) gets the sorted lane dense. */
template <class E, class Load, class Store>
mlxc_error* sort_side_by_side(const Lanes& lanes, const Load& load, const Store& store) {
  constexpr int64_t W = kColumns<E>;
  const int64_t n = lanes.length, blocks = (lanes.count + W - 1) / W;
  const size_t bytes = static_cast<size_t>(n * (W + 1)) * sizeof(E);
  std::atomic<bool> failed{false};
  parallel_for(blocks, grain_for_bytes(n * W * 16), [&](int64_t begin, int64_t end) {
    Scratch scratch(bytes);
    if (!scratch.ok()) {
      failed.store(true);
      return;
    }
    E* rows = scratch.as<E>();
    E* keys = rows + n * W;
    std::memset(static_cast<void*>(rows), 0, bytes);
    for (int64_t block = begin; block < end; block++) {
      const int64_t first = block * W, count = std::min(W, lanes.count - first);
      int64_t from[W], to[W];
      Cursor<2> cursor(lanes.starts, first / lanes.starts.inner);
      int64_t column = first % lanes.starts.inner;
      for (int64_t i = 0; i < count; i++) {
        from[i] = cursor.offset[0] + column * lanes.starts.inner_stride(0);
        to[i] = cursor.offset[1] + column * lanes.starts.inner_stride(1);
        load(from[i], rows + i);
        if (++column == lanes.starts.inner) {
          column = 0;
          cursor.next();
        }
      }
      sort_columns(rows, n);
      for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < n; j++) keys[j] = rows[j * W + i];
        store(from[i], to[i], keys);
      }
    }
  });
  return failed.load() ? make_memory_error(bytes) : nullptr;
}

/* Puts zeros of both signs, which sorting has parted, back into the order in which they came. */
template <class T>
void restore_zeros(const T* from, int64_t stride, int64_t n, KeyOf<T>* keys) {
  KeyOf<T>* next = std::lower_bound(keys, keys + n, kNegativeZero<T>);
  for (int64_t i = 0; i < n; i++) {
    const KeyOf<T> key = order_key(from[i * stride]);
    if (key == kNegativeZero<T> || key == kPositiveZero<T>) *next++ = key;
  }
}

template <class T>
mlxc_error* sort_values(const mlxc_view* a, const mlxc_view* out, int axis) {
  const Lanes lanes(a, out, axis);
  const int64_t n = lanes.length;
  if constexpr (is_complex<T>) {
    using E = RankOf<T>;
    return for_each_lane<E>(
        lanes, [&](const SortRoom<E>& room, int64_t chunks, int64_t from_offset, int64_t to_offset) {
          const T* from = data<const T>(a) + from_offset;
          T* to = data<T>(out) + to_offset;
          for (int64_t i = 0; i < n; i++) room.elements[i] = rank_value(from[i * lanes.stride], i);
          const E* sorted = sort_dense(room, n, kRankBits<T>, chunks);
          for (int64_t i = 0; i < n; i++) to[i * lanes.out_stride] = from[sorted[i].place() * lanes.stride];
        });
  } else {
    using E = KeyOf<T>;
    const int64_t stride = lanes.stride, out_stride = lanes.out_stride;
    auto finish = [&](int64_t from_offset, int64_t to_offset, E* sorted, int64_t chunks) {
      const T* from = data<const T>(a) + from_offset;
      T* to = data<T>(out) + to_offset;
      if constexpr (has_nan<T>) {
        const E* zero = std::lower_bound(sorted, sorted + n, kNegativeZero<T>);
        if (zero != sorted + n && *zero == kNegativeZero<T>) restore_zeros(from, stride, n, sorted);
      }
      for_each_piece(n, chunks, [&](int64_t begin, int64_t end) {
        if (out_stride == 1) {
          for (int64_t i = begin; i < end; i++) to[i] = value_of_key<T>(sorted[i]);
        } else {
          for (int64_t i = begin; i < end; i++) to[i * out_stride] = value_of_key<T>(sorted[i]);
        }
      });
    };
    if (fits_network<E>(lanes)) {
      auto load = [&](int64_t offset, E* column) {
        const T* from = data<const T>(a) + offset;
        for (int64_t i = 0; i < n; i++) column[i * kColumns<E>] = order_key(from[i * stride]);
      };
      return sort_side_by_side<E>(lanes, load,
                                  [&](int64_t from, int64_t to, E* sorted) { finish(from, to, sorted, 1); });
    }
    return for_each_lane<E>(
        lanes, [&](const SortRoom<E>& room, int64_t chunks, int64_t from_offset, int64_t to_offset) {
          const T* from = data<const T>(a) + from_offset;
          E* MLXC_RESTRICT keys = room.elements;
          for_each_piece(n, chunks, [&](int64_t begin, int64_t end) {
            if (stride == 1) {
              for (int64_t i = begin; i < end; i++) keys[i] = order_key(from[i]);
            } else {
              for (int64_t i = begin; i < end; i++) keys[i] = order_key(from[i * stride]);
            }
          });
          finish(from_offset, to_offset, sort_dense(room, n, kRankBits<T>, chunks), chunks);
        });
  }
}

template <class T>
mlxc_error* sort_places(const mlxc_view* a, const mlxc_view* out, int axis) {
  using E = RankOf<T>;
  const Lanes lanes(a, out, axis);
  const int64_t n = lanes.length;
  if constexpr (std::is_same_v<E, ShortRank>) {
    if (fits_network<uint64_t>(lanes)) {
      auto load = [&](int64_t offset, uint64_t* column) {
        const T* from = data<const T>(a) + offset;
        for (int64_t i = 0; i < n; i++)
          column[i * kColumns<uint64_t>] = rank_value(from[i * lanes.stride], i).word;
      };
      auto store = [&](int64_t, int64_t offset, const uint64_t* sorted) {
        uint32_t* to = data<uint32_t>(out) + offset;
        for (int64_t i = 0; i < n; i++) to[i * lanes.out_stride] = static_cast<uint32_t>(sorted[i]);
      };
      return sort_side_by_side<uint64_t>(lanes, load, store);
    }
  }
  return for_each_lane<E>(
      lanes, [&](const SortRoom<E>& room, int64_t chunks, int64_t from_offset, int64_t to_offset) {
        const T* from = data<const T>(a) + from_offset;
        uint32_t* to = data<uint32_t>(out) + to_offset;
        for_each_piece(n, chunks, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; i++) room.elements[i] = rank_value(from[i * lanes.stride], i);
        });
        const E* sorted = sort_dense(room, n, kRankBits<T>, chunks);
        for_each_piece(n, chunks, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; i++) to[i * lanes.out_stride] = sorted[i].place();
        });
      });
}

/* Keeps the k greatest of n elements, in no order, at the front of `kept`, which has room for n. */
template <class E, class Read>
void select_greatest(int64_t n, int64_t k, E* kept, const Read& read) {
  auto greater = [](const E& x, const E& y) { return y < x; };
  const int64_t room = std::min(n, std::max<int64_t>(2 * k, 64));
  int64_t count = 0;
  bool bounded = false;
  E bound{};
  for (int64_t i = 0; i < n; i++) {
    const E element = read(i);
    if (bounded && !(bound < element)) continue;
    kept[count++] = element;
    if (count == room && count > k) {
      std::nth_element(kept, kept + k - 1, kept + count, greater);
      bound = kept[k - 1];
      bounded = true;
      count = k;
    }
  }
  if (count > k) std::nth_element(kept, kept + k - 1, kept + count, greater);
}

template <class T>
mlxc_error* select_top(const mlxc_view* a, const mlxc_view* out, int axis, int64_t k) {
  const Lanes lanes(a, out, axis);
  const int64_t n = lanes.length;
  using E = RankOf<T>;
  return for_each_lane<E>(lanes, [&](const SortRoom<E>& room, int64_t, int64_t from_offset,
                                     int64_t to_offset) {
    const T* from = data<const T>(a) + from_offset;
    T* to = data<T>(out) + to_offset;
    select_greatest(n, k, room.elements, [&](int64_t i) { return rank_value(from[i * lanes.stride], i); });
    std::sort(room.elements, room.elements + k);
    for (int64_t i = 0; i < k; i++) to[i * lanes.out_stride] = from[room.elements[i].place() * lanes.stride];
  });
}

/* Calls store(from, to, places) for every lane with its places partitioned round place k. */
template <class T, class Store>
mlxc_error* select_lanes(const mlxc_view* a, const Lanes& lanes, int64_t k, const Store& store) {
  using E = RankOf<T>;
  FirstError first;
  mlxc_error* error =
      for_each_lane<E>(lanes, [&](const SortRoom<E>& room, int64_t, int64_t from_offset, int64_t to_offset) {
        const T* from = data<const T>(a) + from_offset;
        const int64_t stride = lanes.stride;
        Scratch scratch(static_cast<size_t>(lanes.length) * sizeof(uint32_t));
        if (!scratch.ok()) return first.set(scratch.error());
        uint32_t* places = scratch.as<uint32_t>();
        auto read = [&](int64_t i) { return rank_value(from[i * stride], i); };
        select_places<E>(room, lanes.length, k, kRankBits<T>, read, places);
        store(from, to_offset, places);
      });
  if (error) first.set(error);
  return first.take();
}

template <class T>
mlxc_error* partition_values(const mlxc_view* a, const mlxc_view* out, int axis, int64_t k) {
  const Lanes lanes(a, out, axis);
  return select_lanes<T>(a, lanes, k, [&](const T* from, int64_t to_offset, const uint32_t* places) {
    T* to = data<T>(out) + to_offset;
    for (int64_t i = 0; i < lanes.length; i++) to[i * lanes.out_stride] = from[places[i] * lanes.stride];
  });
}

template <class T>
mlxc_error* partition_places(const mlxc_view* a, const mlxc_view* out, int axis, int64_t k) {
  const Lanes lanes(a, out, axis);
  return select_lanes<T>(a, lanes, k, [&](const T*, int64_t to_offset, const uint32_t* places) {
    uint32_t* to = data<uint32_t>(out) + to_offset;
    for (int64_t i = 0; i < lanes.length; i++) to[i * lanes.out_stride] = places[i];
  });
}

mlxc_error* check_axis(const char* op, const mlxc_view* a, int axis) {
  if (a->ndim > 0 && (axis < 0 || axis >= a->ndim)) {
    return make_error(MLXC_ERROR_AXIS, "%s: axis %d is out of range for %d axes", op, axis, a->ndim);
  }
  if (a->ndim > 0 && a->shape[axis] > INT64_C(0xffffffff)) {
    return make_error(MLXC_ERROR_VALUE, "%s: axis %d has %lld elements; up to 2**32 - 1 are accepted", op,
                      axis, static_cast<long long>(a->shape[axis]));
  }
  return nullptr;
}

mlxc_error* run_sort(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* a = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  const int axis = params<mlxc_sort_params>(call)->axis;
  if (a->dtype != out->dtype) {
    return make_error(MLXC_ERROR_TYPE, "sort: the CPU kernel got %s for a result of %s", dtype_name(a->dtype),
                      dtype_name(out->dtype));
  }
  if (mlxc_error* error = check_axis("sort", a, axis)) return error;
  if (out->size == 0) return nullptr;
  return visit_dtype(a->dtype,
                     [&](auto tag) { return sort_values<typename decltype(tag)::type>(a, out, axis); });
}

mlxc_error* run_argsort(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* a = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  const int axis = params<mlxc_argsort_params>(call)->axis;
  if (mlxc_error* error = check_axis("argsort", a, axis)) return error;
  if (out->size == 0) return nullptr;
  return visit_dtype(a->dtype,
                     [&](auto tag) { return sort_places<typename decltype(tag)::type>(a, out, axis); });
}

mlxc_error* run_topk(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* a = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  const auto* p = params<mlxc_topk_params>(call);
  if (a->dtype != out->dtype) {
    return make_error(MLXC_ERROR_TYPE, "topk: the CPU kernel got %s for a result of %s", dtype_name(a->dtype),
                      dtype_name(out->dtype));
  }
  if (mlxc_error* error = check_axis("topk", a, p->axis)) return error;
  const int64_t length = a->ndim > 0 ? a->shape[p->axis] : 1;
  if (p->k < 0 || p->k > length) {
    return make_error(MLXC_ERROR_VALUE, "topk: k is %lld for axis %d with size %lld",
                      static_cast<long long>(p->k), p->axis, static_cast<long long>(length));
  }
  if (out->size == 0) return nullptr;
  return visit_dtype(
      a->dtype, [&](auto tag) { return select_top<typename decltype(tag)::type>(a, out, p->axis, p->k); });
}

template <class P>
mlxc_error* check_kth(const char* op, const mlxc_view* a, const P* p) {
  if (mlxc_error* error = check_axis(op, a, p->axis)) return error;
  const int64_t length = a->ndim > 0 ? a->shape[p->axis] : 1;
  if (p->kth >= 0 && p->kth < length) return nullptr;
  return make_error(MLXC_ERROR_VALUE, "%s: kth is %lld for axis %d with size %lld", op,
                    static_cast<long long>(p->kth), p->axis, static_cast<long long>(length));
}

mlxc_error* run_partition(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* a = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  const auto* p = params<mlxc_partition_params>(call);
  if (a->dtype != out->dtype) {
    return make_error(MLXC_ERROR_TYPE, "partition: the CPU kernel got %s for a result of %s",
                      dtype_name(a->dtype), dtype_name(out->dtype));
  }
  if (mlxc_error* error = check_kth("partition", a, p)) return error;
  if (out->size == 0) return nullptr;
  return visit_dtype(a->dtype, [&](auto tag) {
    return partition_values<typename decltype(tag)::type>(a, out, p->axis, p->kth);
  });
}

mlxc_error* run_argpartition(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* a = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  const auto* p = params<mlxc_argpartition_params>(call);
  if (mlxc_error* error = check_kth("argpartition", a, p)) return error;
  if (out->size == 0) return nullptr;
  return visit_dtype(a->dtype, [&](auto tag) {
    return partition_places<typename decltype(tag)::type>(a, out, p->axis, p->kth);
  });
}

constexpr mlxc_dtype_mask kMaskPlace = MLXC_DTYPE_BIT(MLXC_UINT32);
const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_SORT, kMaskAll, kMaskAll, run_sort),
    make_row(MLXC_OP_ARGSORT, kMaskAll, kMaskPlace, run_argsort),
    make_row(MLXC_OP_PARTITION, kMaskAll, kMaskAll, run_partition),
    make_row(MLXC_OP_ARGPARTITION, kMaskAll, kMaskPlace, run_argpartition),
    make_row(MLXC_OP_TOPK, kMaskAll, kMaskAll, run_topk),
};

}  // namespace

KernelRows sort_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
