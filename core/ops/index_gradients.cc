// Gradient rules of gather, scatter, gather_axis and scatter_axis. The first two and the last two differ in
// how they name places, which `Places` hides; the rules are written once.
//
// Rule: several indices may name the same place, and each gradient is right for that: the last one wins a
// set; a product leaves out one factor at a time, without dividing, so zeros do no harm; elements that tie
// for a maximum or minimum share the gradient equally.
#include "core/ops/common.h"

namespace mlxc {

namespace {

enum Mode : int32_t { set_ = 0, add_ = 1, multiply_ = 2, maximum_ = 3, minimum_ = 4 };

// The places that indices name, in arrays of one shape.
struct Places {
  std::vector<Array> indices;  // one for each of `axes`; along an axis: one
  Axes axes;                   // the indexed axes; along an axis: that axis
  bool along_axis;

  Array gather(const Array& a) const {
    return along_axis ? op::gather_axis(a, indices[0], axes.items[0]) : op::gather(a, indices, axes);
  }
  Array scatter(const Array& a, const Array& update, Mode mode) const {
    return along_axis ? op::scatter_axis(a, indices[0], update, axes.items[0], mode)
                      : op::scatter(a, update, indices, axes, mode);
  }
};

// arange(count) along `axis` of an array of ndim axes whose other axes have size one.
Array arange_along(int64_t count, int ndim, int axis) {
  Dims shape;
  for (int i = 0; i < ndim; i++) shape.push(i == axis ? count : 1);
  return op::reshape(op::arange(0, 1, count, MLXC_INT64), make_sizes(shape.span()));
}

// Indices with those that count from the end made to count from the start.
Array wrap(const Array& indices, int64_t size) {
  const Array wide = cast_to(indices, MLXC_INT64);
  if (is_unsigned(indices.dtype())) return wide;
  return op::where(op::less(wide, scalar(0, MLXC_INT64)),
                   op::add(wide, scalar(static_cast<double>(size), MLXC_INT64)), wide);
}

// For each index (in the index shape) a number that tells its place in an array of `shape`.
Array number_places(const Places& places, std::span<const int64_t> shape) {
  const int n_axes = places.along_axis ? static_cast<int>(shape.size()) : places.axes.count;
  Array numbers;
  for (int i = 0; i < n_axes; i++) {
    const int axis = places.along_axis ? i : places.axes.items[i];
    const int64_t size = shape[static_cast<size_t>(axis)];
    Array index;
    if (places.along_axis && i != places.axes.items[0]) {
      index = arange_along(size, n_axes, i);
    } else {
      index = wrap(places.indices[places.along_axis ? 0 : static_cast<size_t>(i)], size);
    }
    if (numbers) numbers = op::multiply(numbers, scalar(static_cast<double>(size), MLXC_INT64));
    numbers = add_maybe(numbers, index);
  }
  return broadcast_to(numbers, places.indices[0].shape());
}

// Which indices (in the index shape) come last among those that name their place: their update stays.
Array find_last(const Places& places, std::span<const int64_t> shape) {
  const Array& index = places.indices[0];
  const mlxc_dtype dtype = index.size() <= INT32_MAX ? MLXC_INT32 : MLXC_INT64;
  const Array slots = op::reshape(op::arange(0, 1, index.size(), dtype), index.sizes());
  if (places.along_axis) {
    return op::equal(places.gather(places.scatter(zeros(shape, dtype), slots, set_)), slots);
  }
  Dims indexed;
  for (int i = 0; i < places.axes.count; i++) indexed.push(shape[static_cast<size_t>(places.axes.items[i])]);
  const Places inner{places.indices, all_axes(places.axes.count), false};
  return op::equal(inner.gather(inner.scatter(zeros(indexed.span(), dtype), slots, set_)), slots);
}

// Gives an array of the index shape trailing axes, so that it broadcasts against an update.
Array add_trailing(const Array& a, int ndim) {
  Dims shape = a.dims();
  while (shape.n < ndim) shape.push(1);
  return shape.n == a.ndim() ? a : op::reshape(a, make_sizes(shape.span()));
}

// The gradient of `update` in set mode, from what gather reads of the cotangent.
Array keep_last(const Places& places, std::span<const int64_t> shape, const Array& update) {
  if (places.indices[0].size() <= 1) return update;
  return keep_where(add_trailing(find_last(places, shape), update.ndim()), update);
}

// In rows sorted by `keys`, the product of the rows before each one that have the same key. After the step
// of a given distance, row i holds the product of the `distance` rows before it.
Array multiply_before(const Array& rows, const Array& keys) {
  const int64_t count = rows.dim(0);
  const auto shift = [&](const Array& factors, int64_t distance) {
    const Array same =
        op::equal(slice_axis(keys, 0, distance, count - distance), slice_axis(keys, 0, 0, count - distance));
    const Array before = slice_axis(factors, 0, 0, count - distance);
    const Array kept = op::where(same, before, scalar_like(1, rows));
    const Array parts[] = {ones(Dims{distance, rows.dim(1)}.span(), rows.dtype()), kept};
    return op::concatenate(parts, 0);
  };
  Array product = shift(rows, 1);
  for (int64_t distance = 1; distance < count; distance *= 2) {
    product = op::multiply(product, shift(product, distance));
  }
  return product;
}

Array reverse_rows(const Array& a) { return slice_axis(a, 0, a.dim(0) - 1, a.dim(0), -1); }

// For each element of the update, the product of all the others that are multiplied into its place.
Array multiply_others(const Places& places, std::span<const int64_t> shape, const Array& update) {
  const int64_t count = places.indices[0].size();
  if (count <= 1 || update.size() == 0) return ones_like(update);
  const int64_t flat[] = {count, 1}, rows_shape[] = {count, update.size() / count};
  const Array numbers = op::reshape(number_places(places, shape), make_sizes(flat));
  const Array order = op::argsort(op::reshape(numbers, make_sizes({flat, 1})), 0);
  const Axes first = make_axes({0});
  const std::vector<Array> sorted{order};
  const Array keys = op::gather(numbers, sorted, first);
  const Array rows = op::gather(op::reshape(update, make_sizes(rows_shape)), sorted, first);
  const Array after = reverse_rows(multiply_before(reverse_rows(rows), reverse_rows(keys)));
  const Array others = op::multiply(multiply_before(rows, keys), after);
  const std::vector<Array> back{op::argsort(order, 0)};
  return op::reshape(op::gather(others, back, first), update.sizes());
}

// Who reaches the result of a maximum or minimum.
struct Winners {
  Array a, update;  // bool
  Array count;      // how many share a place, of the result's dtype
};

Winners find_winners(const Places& places, const Array& a, const Array& update, const Array& result) {
  // A NaN always reaches the result, and then is no longer equal to it.
  const auto reaches = [](const Array& x, const Array& y) {
    return op::logical_or(op::equal(x, y), op::isnan(x));
  };
  Winners winners{reaches(a, result), reaches(update, places.gather(result)), Array()};
  const Array count =
      places.scatter(op::astype(winners.a, MLXC_INT32), op::astype(winners.update, MLXC_INT32), add_);
  winners.count = op::astype(count, result.dtype());
  return winners;
}

void vjp_places(const Places& places, Mode mode, const Vjp& vjp, int update_input, Array* grads) {
  const Array& g = vjp.cotangent();
  const Array &a = vjp.inputs[0], &update = vjp.inputs[static_cast<size_t>(update_input)];
  Array grad_a, grad_update;
  const bool wants_a = vjp.wants(0), wants_update = vjp.wants(update_input);
  if (mode == set_) {
    if (wants_a) grad_a = places.scatter(g, scalar_like(0, g), set_);
    if (wants_update) grad_update = keep_last(places, a.shape(), places.gather(g));
  } else if (mode == add_) {
    if (wants_a) grad_a = g;
    if (wants_update) grad_update = places.gather(g);
  } else if (mode == multiply_) {
    if (wants_a) grad_a = places.scatter(g, conj(update), multiply_);
    if (wants_update) {
      const Array others = op::multiply(places.gather(a), multiply_others(places, a.shape(), update));
      grad_update = mul_conj(places.gather(g), others);
    }
  } else {
    const Winners winners = find_winners(places, a, update, vjp.output());
    const Array share = op::divide(g, winners.count);
    if (wants_a) grad_a = keep_where(winners.a, share);
    if (wants_update) grad_update = keep_where(winners.update, places.gather(share));
  }
  grads[0] = grad_a;
  grads[update_input] = grad_update;
}

Array jvp_places(const Places& places, Mode mode, const Jvp& jvp, int update_input) {
  const Array &a = jvp.inputs[0], &update = jvp.inputs[static_cast<size_t>(update_input)];
  const Array &given_a = jvp.tangents[0], &given_update = jvp.tangents[static_cast<size_t>(update_input)];
  if (!given_a && !given_update) return Array();
  const Array tangent_a = given_a ? given_a : zeros_like(a);
  const Array tangent_update = given_update ? given_update : zeros_like(update);
  if (mode == set_ || mode == add_) return places.scatter(tangent_a, tangent_update, mode);
  if (mode == multiply_) {
    const Array product = places.scatter(tangent_a, update, multiply_);
    if (!given_update) return product;
    const Array others = op::multiply(places.gather(a), multiply_others(places, a.shape(), update));
    return places.scatter(product, op::multiply(tangent_update, others), add_);
  }
  const Winners winners = find_winners(places, a, update, jvp.output());
  const Array sum =
      places.scatter(keep_where(winners.a, tangent_a), keep_where(winners.update, tangent_update), add_);
  return op::divide(sum, winners.count);
}

Places named_places(std::span<const Array> inputs, size_t first, const Axes& axes) {
  return {std::vector<Array>(inputs.begin() + static_cast<std::ptrdiff_t>(first), inputs.end()), axes, false};
}

Places places_along(const Array& indices, int32_t axis) { return {{indices}, make_axes({axis}), true}; }

void vjp_gather_places(const Places& places, const Vjp& vjp, Array* grads) {
  const Array& g = vjp.cotangent();
  if (vjp.wants(0)) grads[0] = places.scatter(zeros(vjp.inputs[0].shape(), g.dtype()), g, add_);
}

Array jvp_gather_places(const Places& places, const Jvp& jvp) {
  return jvp.tangents[0] ? places.gather(jvp.tangents[0]) : Array();
}

}  // namespace

void vjp_gather(const Vjp& vjp, Array* grads) {
  vjp_gather_places(named_places(vjp.inputs, 1, vjp.params_as<mlxc_gather_params>().axes), vjp, grads);
}

void jvp_gather(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] =
      jvp_gather_places(named_places(jvp.inputs, 1, jvp.params_as<mlxc_gather_params>().axes), jvp);
}

void vjp_gather_axis(const Vjp& vjp, Array* grads) {
  vjp_gather_places(places_along(vjp.inputs[1], vjp.params_as<mlxc_gather_axis_params>().axis), vjp, grads);
}

void jvp_gather_axis(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] =
      jvp_gather_places(places_along(jvp.inputs[1], jvp.params_as<mlxc_gather_axis_params>().axis), jvp);
}

void vjp_scatter(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<mlxc_scatter_params>();
  vjp_places(named_places(vjp.inputs, 2, params.axes), static_cast<Mode>(params.mode), vjp, 1, grads);
}

void jvp_scatter(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<mlxc_scatter_params>();
  out_tangents[0] =
      jvp_places(named_places(jvp.inputs, 2, params.axes), static_cast<Mode>(params.mode), jvp, 1);
}

void vjp_scatter_axis(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<mlxc_scatter_axis_params>();
  vjp_places(places_along(vjp.inputs[1], params.axis), static_cast<Mode>(params.mode), vjp, 2, grads);
}

void jvp_scatter_axis(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<mlxc_scatter_axis_params>();
  out_tangents[0] =
      jvp_places(places_along(jvp.inputs[1], params.axis), static_cast<Mode>(params.mode), jvp, 2);
}

}  // namespace mlxc
