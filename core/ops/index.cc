// Shape and batching rules of gather, scatter, gather_axis and scatter_axis. Their gradients are in
// index_gradients.cc.
//
// Rule: kernels see index arrays of one shape (the shape rules broadcast them, each keeps its dtype), and an
// update of the shape that gather would give. Index values are checked when they are known: by the kernels.
#include "core/ops/batch.h"
#include "core/ops/update.h"

namespace mlxc {

namespace {

void check_index_dtype(const Recording& rec, int i) {
  const mlxc_dtype dtype = rec.input(i).dtype;
  if (!is_integer(dtype)) {
    fail(MLXC_ERROR_TYPE, rec.name(), ": indices must be integers, got ", dtype_name(dtype));
  }
}

void check_mode(const Recording& rec, int32_t mode) {
  if (mode < 0 || mode > 4) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": mode must be 0 (set), 1 (add), 2 (multiply), 3 (maximum) or ",
         "4 (minimum), got ", mode);
  }
}

// Indices into an axis without elements are out of range whatever their values.
void check_axis_size(const Recording& rec, int axis, int64_t n_indices) {
  if (n_indices > 0 && rec.input(0).shape_data()[axis] == 0) {
    fail(MLXC_ERROR_INDEX, rec.name(), ": no index fits axis ", axis, " of shape ",
         shape_text(rec.input(0).shape()), ", which is empty");
  }
}

// Checks and broadcasts the index arrays, which are the inputs from `first` on, and returns the shape of what
// they read: the index shape, then the axes not indexed.
Dims infer_places(Recording& rec, int first, Axes& axes) {
  const Node& a = rec.input(0);
  const int count = rec.n_inputs - first;
  if (count == 0) fail(MLXC_ERROR_VALUE, rec.name(), ": needs at least one index array");
  if (axes.count == -1) axes = all_axes(a.ndim);
  if (axes.count != count) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": got ", count, " index arrays for ", axes.count, " axes of shape ",
         shape_text(a.shape()));
  }
  Axes normalized{};
  bool indexed[MLXC_MAX_NDIM] = {};
  Dims shape;
  for (int i = 0; i < count; i++) {
    const int axis = normalize_axis(rec.name(), axes.items[i], a.ndim);
    if (indexed[axis]) fail(MLXC_ERROR_VALUE, rec.name(), ": axis ", axis, " is indexed twice");
    indexed[axis] = true;
    normalized.items[normalized.count++] = axis;
    check_index_dtype(rec, first + i);
    shape = broadcast_shapes(rec.name(), shape.span(), rec.input(first + i).shape());
  }
  axes = normalized;
  const int64_t n_indices = checked_size(rec.name(), shape.span());
  for (int i = 0; i < count; i++) {
    check_axis_size(rec, axes.items[i], n_indices);
    broadcast_input(rec, first + i, shape);
  }
  for (int k = 0; k < a.ndim; k++) {
    if (!indexed[k]) shape.push(a.shape_data()[k]);
  }
  checked_size(rec.name(), shape.span(), dtype_size(a.dtype));
  return shape;
}

// The shape of `like` with the axis of another size.
Dims with_axis(Dims like, int axis, int64_t size) {
  like[axis] = size;
  return like;
}

int check_along_axis(Recording& rec, int32_t axis) {
  const Node &a = rec.input(0), &indices = rec.input(1);
  check_index_dtype(rec, 1);
  if (a.ndim != indices.ndim) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": the array and the indices need equally many axes, got shapes ",
         shape_text(a.shape()), " and ", shape_text(indices.shape()));
  }
  return normalize_axis(rec.name(), axis, a.ndim);
}

// The axes of gather_axis's inputs but `axis`, which gets size one, broadcast together.
Dims broadcast_others(const Recording& rec, int axis) {
  const Node &a = rec.input(0), &indices = rec.input(1);
  try {
    return broadcast_shapes(rec.name(), with_axis(Dims(a.shape()), axis, 1).span(),
                            with_axis(Dims(indices.shape()), axis, 1).span());
  } catch (const Failure&) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": shapes ", shape_text(a.shape()), " and ",
         shape_text(indices.shape()), " do not broadcast together, axis ", axis, " aside");
  }
}

}  // namespace

void infer_gather(Recording& rec) {
  const mlxc_dtype dtype = rec.input(0).dtype;
  rec.out[0] = {dtype, infer_places(rec, 1, rec.params_as<mlxc_gather_params>().axes)};
}

void infer_scatter(Recording& rec) {
  const Node& a = rec.input(0);
  auto& params = rec.params_as<mlxc_scatter_params>();
  check_mode(rec, params.mode);
  fit_update(rec, 1, a.dtype, infer_places(rec, 2, params.axes));
  rec.out[0] = {a.dtype, Dims(a.shape())};
}

void infer_gather_axis(Recording& rec) {
  const Node &a = rec.input(0), &indices = rec.input(1);
  auto& params = rec.params_as<mlxc_gather_axis_params>();
  const int axis = params.axis = check_along_axis(rec, params.axis);
  const int64_t length = a.shape_data()[axis], n_indices = indices.shape_data()[axis];
  const Dims others = broadcast_others(rec, axis);
  const Dims shape = with_axis(others, axis, n_indices);
  check_axis_size(rec, axis, checked_size(rec.name(), shape.span(), dtype_size(a.dtype)));
  broadcast_input(rec, 0, with_axis(others, axis, length));
  broadcast_input(rec, 1, shape);
  rec.out[0] = {a.dtype, shape};
}

void infer_scatter_axis(Recording& rec) {
  const Node &a = rec.input(0), &indices = rec.input(1);
  auto& params = rec.params_as<mlxc_scatter_axis_params>();
  check_mode(rec, params.mode);
  const int axis = params.axis = check_along_axis(rec, params.axis);
  const Dims places = with_axis(Dims(a.shape()), axis, indices.shape_data()[axis]);
  for (int k = 0; k < a.ndim; k++) {
    const int64_t size = indices.shape_data()[k];
    if (size != 1 && size != places[k]) {
      fail(MLXC_ERROR_VALUE, rec.name(), ": indices of shape ", shape_text(indices.shape()),
           " do not broadcast to the other axes of shape ", shape_text(a.shape()));
    }
  }
  check_axis_size(rec, axis, checked_size(rec.name(), places.span(), dtype_size(a.dtype)));
  broadcast_input(rec, 1, places);
  fit_update(rec, 2, a.dtype, places);
  rec.out[0] = {a.dtype, Dims(a.shape())};
}

// ---- batching -----------------------------------------------------------------------------------

namespace {

// How inputs from `first` on index: whether one of them is batched, and how many axes each has without batch.
struct IndexBatch {
  bool batched = false;
  int ndim;
};

IndexBatch find_index_batch(const Vmap& vmap, size_t first) {
  IndexBatch found;
  found.ndim = vmap.inputs[first].ndim() - vmap.batched[first];
  for (size_t i = first; i < vmap.inputs.size(); i++) found.batched = found.batched || vmap.batched[i];
  return found;
}

// Adds the batch, the first axis of the array, to the axes that are indexed: each example reads its own.
void index_batch(const Vmap& vmap, int index_ndim, std::vector<Array>* indices, Axes* axes) {
  const mlxc_dtype dtype = vmap.size <= INT32_MAX ? MLXC_INT32 : MLXC_INT64;
  indices->insert(indices->begin(), iota(vmap.size, 0, index_ndim + 1, dtype));
  Axes all = make_axes({0});
  for (int i = 0; i < axes->count; i++) all.items[all.count++] = axes->items[i] + 1;
  *axes = all;
}

// One that is not batched gets an axis of size one in its place.
Array input_or_single(const Vmap& vmap, size_t i) {
  return vmap.batched[i] ? vmap.inputs[i] : op::expand_dims(vmap.inputs[i], make_axes({0}));
}

}  // namespace

void vmap_gather(const Vmap& vmap, Array* results) {
  Axes axes = vmap.params_as<mlxc_gather_params>().axes;
  const IndexBatch index = find_index_batch(vmap, 1);
  std::vector<Array> indices(vmap.inputs.begin() + 1, vmap.inputs.end());
  if (!index.batched) {
    results[0] = move_axis(op::gather(vmap.inputs[0], indices, shift_axes(axes)), index.ndim, 0);
    return;
  }
  if (vmap.batched[0]) index_batch(vmap, index.ndim, &indices, &axes);
  results[0] = op::gather(vmap.inputs[0], indices, axes);
}

void vmap_scatter(const Vmap& vmap, Array* results) {
  const auto& params = vmap.params_as<mlxc_scatter_params>();
  Axes axes = params.axes;
  const IndexBatch index = find_index_batch(vmap, 2);
  std::vector<Array> indices(vmap.inputs.begin() + 2, vmap.inputs.end());
  Array update = vmap.inputs[1];
  if (index.batched) {
    index_batch(vmap, index.ndim, &indices, &axes);
  } else {
    axes = shift_axes(axes);
    update =
        vmap.batched[1] ? move_axis(update, 0, index.ndim) : op::expand_dims(update, make_axes({index.ndim}));
  }
  results[0] = op::scatter(batched_input(vmap, 0), update, indices, axes, params.mode);
}

void vmap_gather_axis(const Vmap& vmap, Array* results) {
  results[0] = op::gather_axis(input_or_single(vmap, 0), input_or_single(vmap, 1),
                               vmap.params_as<mlxc_gather_axis_params>().axis + 1);
}

void vmap_scatter_axis(const Vmap& vmap, Array* results) {
  const auto& params = vmap.params_as<mlxc_scatter_axis_params>();
  results[0] = op::scatter_axis(batched_input(vmap, 0), input_or_single(vmap, 1), input_or_single(vmap, 2),
                                params.axis + 1, params.mode);
}

}  // namespace mlxc
