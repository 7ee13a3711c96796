/* Kernels of the far backend, and the checks of what the core hands to a kernel.
 *
 * The core finds the rows at the end of this file in the backend's table. The list is partial on
 * purpose: float32 (add: int32 too), a multiply and a matmul that take only contiguous inputs, and a
 * matmul without batches; whatever else is asked for the core has to bring to the CPU and back. Rule
 * it keeps: a call that breaks backend.h's promises is a complaint, never a guess.
 */
#include <stdatomic.h>
#include <string.h>

#include "far.h"

/* ---- the work: on the stream's thread ------------------------------------------------------- */

/* Byte offset of element `index`, counted row-major, of a view. */
static int64_t offset_of(const far_view* view, int64_t index, int64_t item) {
  int64_t elements = 0;
  for (int32_t axis = view->ndim - 1; axis >= 0; axis--) {
    elements += index % view->shape[axis] * view->strides[axis];
    index /= view->shape[axis];
  }
  return view->offset + elements * item;
}

static void work_contiguous(const far_job* job, char* const* data) {
  const far_view* out = &job->views[1];
  for (int64_t i = 0; i < out->size; i++)
    memcpy(data[1] + out->offset + i * 4, data[0] + offset_of(&job->views[0], i, 4), 4);
}

static void work_full(const far_job* job, char* const* data) {
  const far_view* out = &job->views[1];
  for (int64_t i = 0; i < out->size; i++)
    memcpy(data[1] + out->offset + i * 4, data[0] + job->views[0].offset, 4);
}

static void work_add_float32(const far_job* job, char* const* data) {
  float* out = (float*)(void*)(data[2] + job->views[2].offset);
  for (int64_t i = 0; i < job->views[2].size; i++) {
    float a, b;
    memcpy(&a, data[0] + offset_of(&job->views[0], i, 4), 4);
    memcpy(&b, data[1] + offset_of(&job->views[1], i, 4), 4);
    out[i] = a + b;
  }
}

static void work_add_int32(const far_job* job, char* const* data) {
  const uint32_t* a = (const uint32_t*)(void*)(data[0] + job->views[0].offset);
  const uint32_t* b = (const uint32_t*)(void*)(data[1] + job->views[1].offset);
  uint32_t* out = (uint32_t*)(void*)(data[2] + job->views[2].offset);
  for (int64_t i = 0; i < job->views[2].size; i++) out[i] = a[i] + b[i];
}

static void work_multiply(const far_job* job, char* const* data) {
  const float* a = (const float*)(void*)(data[0] + job->views[0].offset);
  const float* b = (const float*)(void*)(data[1] + job->views[1].offset);
  float* out = (float*)(void*)(data[2] + job->views[2].offset);
  for (int64_t i = 0; i < job->views[2].size; i++) out[i] = a[i] * b[i];
}

static void work_matmul(const far_job* job, char* const* data) {
  float* out = (float*)(void*)(data[2] + job->views[2].offset);
  int64_t rows = job->views[2].shape[0], columns = job->views[2].shape[1], inner = job->views[0].shape[1];
  memset(out, 0, (size_t)(rows * columns) * sizeof *out);
  if (inner == 0) return;
  const float* a = (const float*)(void*)(data[0] + job->views[0].offset);
  const float* b = (const float*)(void*)(data[1] + job->views[1].offset);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < inner; k++)
      for (int64_t j = 0; j < columns; j++) out[i * columns + j] += a[i * inner + k] * b[k * columns + j];
}

/* Shapes only: matrices without batches. */
static int32_t accepts_matrices(const mlxc_kernel_call* call) {
  return call->inputs[0]->ndim == 2 && call->inputs[1]->ndim == 2;
}

/* full by one value; a value that has to be stretched is the CPU's business. */
static int32_t accepts_one_value(const mlxc_kernel_call* call) { return call->inputs[0]->size == 1; }

/* ---- the kernels' names and work ------------------------------------------------------------ */

typedef struct far_kernel {
  int32_t op;
  mlxc_dtype dtype;
  const char* name;
  int32_t n_inputs;
  far_work work;
} far_kernel;

/* In the order of far_rows. */
static const far_kernel kernels[] = {
    {MLXC_OP_CONTIGUOUS, MLXC_FLOAT32, "contiguous", 1, work_contiguous},
    {MLXC_OP_FULL, MLXC_FLOAT32, "full", 1, work_full},
    {MLXC_OP_ADD, MLXC_FLOAT32, "add", 2, work_add_float32},
    {MLXC_OP_ADD, MLXC_INT32, "add", 2, work_add_int32},
    {MLXC_OP_MULTIPLY, MLXC_FLOAT32, "multiply", 2, work_multiply},
    {MLXC_OP_MATMUL, MLXC_FLOAT32, "matmul", 2, work_matmul},
};
#define N_KERNELS (sizeof kernels / sizeof kernels[0])

/* ---- checks --------------------------------------------------------------------------------- */

static int is_row_contiguous(const mlxc_view* view) {
  int64_t expected = 1;
  for (int32_t axis = view->ndim - 1; axis >= 0; axis--) {
    if (view->shape[axis] != 1 && view->strides[axis] != expected) return 0;
    expected *= view->shape[axis];
  }
  return 1;
}

/* The layout bits that the view's strides need. */
static uint32_t layout_of(const mlxc_view* view) {
  if (view->size < 2 || is_row_contiguous(view)) return MLXC_LAYOUT_CONTIGUOUS;
  uint32_t bits = 0;
  for (int32_t axis = 0; axis < view->ndim; axis++) {
    if (view->shape[axis] == 1) continue;
    if (view->strides[axis] == 0) bits |= MLXC_LAYOUT_BROADCAST;
    if (view->strides[axis] < 0) bits |= MLXC_LAYOUT_NEGATIVE;
    if (view->strides[axis] > 0) bits |= MLXC_LAYOUT_STRIDED;
  }
  return bits;
}

/* What is wrong with a view's own fields, NULL if nothing is. */
static const char* find_fault(const mlxc_view* view) {
  if (view->struct_size < sizeof(mlxc_view)) return "struct_size too small";
  if (view->ndim < 0 || view->ndim > MLXC_MAX_NDIM) return "ndim out of range";
  if (view->host != NULL) return "a host address of memory that the host cannot touch";
  int64_t size = 1;
  for (int32_t axis = 0; axis < view->ndim; axis++) size *= view->shape[axis];
  if (size != view->size) return "size is not the product of the shape";
  if ((view->flags & MLXC_VIEW_ROW_CONTIGUOUS) && size > 1 && !is_row_contiguous(view))
    return "flagged row-contiguous, but the strides are not";
  return NULL;
}

static int same_shape(const mlxc_view* a, const mlxc_view* b) {
  return a->ndim == b->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]) == 0;
}

static const char* find_shape_fault(const mlxc_kernel_call* call) {
  const mlxc_view* a = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  if (call->op == MLXC_OP_FULL) {
    const mlxc_full_params* params = call->params;
    if (params == NULL || call->params_size < sizeof *params) return "parameters are missing";
    return a->size == 1 ? NULL : "accepts() did not take this";
  }
  if (call->op == MLXC_OP_MATMUL) {
    const mlxc_view* b = call->inputs[1];
    if (a->ndim != 2 || b->ndim != 2 || out->ndim != 2) return "accepts() did not take these";
    int fit = a->shape[1] == b->shape[0] && out->shape[0] == a->shape[0] && out->shape[1] == b->shape[1];
    return fit ? NULL : "shapes do not fit";
  }
  for (int32_t i = 0; i < call->n_inputs; i++)
    if (!same_shape(call->inputs[i], out)) return "inputs and output differ in shape";
  return NULL;
}

static const char* find_call_fault(const mlxc_kernel_call* call, const mlxc_kernel* row) {
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const mlxc_view* in = call->inputs[i];
    const char* fault = find_fault(in);
    if (fault != NULL) return fault;
    if (!(row->input_dtypes & MLXC_DTYPE_BIT(in->dtype))) return "an input of another dtype";
    if (layout_of(in) & ~row->layouts) return "an input in a layout that the row does not take";
    if (in->size > 0 && in->memory == call->outputs[0]->memory && in->offset == call->outputs[0]->offset &&
        !(in->flags & MLXC_VIEW_DONATED))
      return "an input shares the output's memory without being donated";
    if ((in->flags & MLXC_VIEW_DONATED) && !(row->flags & (MLXC_KERNEL_DONATES_0 << i)))
      return "an input is donated that the row does not let be donated";
  }
  const mlxc_view* out = call->outputs[0];
  const char* fault = find_fault(out);
  if (fault != NULL) return fault;
  if (!(row->output_dtypes & MLXC_DTYPE_BIT(out->dtype))) return "an output of another dtype";
  if (!(out->flags & MLXC_VIEW_ROW_CONTIGUOUS)) return "an output that is not flagged row-contiguous";
  return find_shape_fault(call);
}

/* ---- submission ----------------------------------------------------------------------------- */

static atomic_llong n_submitted;

/* Copies the view into the job and holds its memory; 0 if rules were broken. */
static int add_view(mlxc_backend_stream* stream, far_job* job, const mlxc_view* view) {
  int32_t at = job->n_memories;
  far_view* copy = &job->views[at];
  copy->offset = view->offset;
  copy->dtype = view->dtype;
  copy->ndim = view->ndim;
  copy->size = view->size;
  int64_t low = 0, high = 0;
  for (int32_t axis = 0; axis < view->ndim; axis++) {
    copy->shape[axis] = view->shape[axis];
    copy->strides[axis] = view->strides[axis];
    int64_t reach = (view->shape[axis] - 1) * view->strides[axis];
    if (reach < 0) low += reach;
    if (reach > 0) high += reach;
  }
  job->n_memories++;
  if (view->size == 0) return 1;
  job->memories[at] =
      far_hold(far_device_of(stream), view->memory, view->offset + low * 4, view->offset + (high + 1) * 4);
  return job->memories[at] != NULL;
}

static mlxc_error* submit_kernel(mlxc_backend_stream* stream, const mlxc_kernel_call* call,
                                 const far_kernel* kernel, const mlxc_kernel* row) {
  const char* fault = find_call_fault(call, row);
  if (fault != NULL) {
    far_complain("kernel %s: %s", kernel->name, fault);
    return far_check();
  }
  far_job* job = far_new_job(kernel->name, kernel->work);
  if (job == NULL) return far_host->error_make(MLXC_ERROR_MEMORY, "far backend: no host memory left");
  int ok = 1;
  for (int32_t i = 0; ok && i < call->n_inputs; i++) ok = add_view(stream, job, call->inputs[i]);
  ok = ok && add_view(stream, job, call->outputs[0]);
  if (!ok) {
    far_free_job(job);
    return far_check();
  }
  long long number = atomic_fetch_add(&n_submitted, 1) + 1;
  if (number == far_set.fail_op) job->fails_as = number;
  far_submit(stream, job);
  return NULL;
}

static mlxc_error* run_kernel(mlxc_backend_stream* stream, const mlxc_kernel_call* call) {
  mlxc_error* error = far_enter(stream);
  if (error != NULL) return error;
  if (call->struct_size < sizeof(mlxc_kernel_call) || call->n_inputs < 1 || call->n_outputs != 1) {
    far_complain("a kernel call of op %d with %d inputs and %d outputs", (int)call->op, (int)call->n_inputs,
                 (int)call->n_outputs);
    error = far_check();
  } else {
    size_t k = 0;
    while (k < N_KERNELS && !(kernels[k].op == call->op && kernels[k].dtype == call->inputs[0]->dtype &&
                              kernels[k].n_inputs == call->n_inputs))
      k++;
    if (k == N_KERNELS) {
      far_complain("a call of op %d with dtype %d, for which there is no row", (int)call->op,
                   (int)call->inputs[0]->dtype);
      error = far_check();
    } else {
      error = submit_kernel(stream, call, &kernels[k], &far_rows[k]);
    }
  }
  far_exit(stream);
  return error;
}

/* ---- the list ------------------------------------------------------------------------------- */

#define ROW(number, type, layout_bits, flag_bits, accepts_function) \
  {                                                                 \
      .struct_size = sizeof(mlxc_kernel),                           \
      .op = number,                                                 \
      .input_dtypes = MLXC_DTYPE_BIT(type),                         \
      .output_dtypes = MLXC_DTYPE_BIT(type),                        \
      .layouts = layout_bits,                                       \
      .flags = flag_bits,                                           \
      .run = run_kernel,                                            \
      .accepts = accepts_function,                                  \
  }

const mlxc_kernel far_rows[] = {
    ROW(MLXC_OP_CONTIGUOUS, MLXC_FLOAT32, MLXC_LAYOUT_ANY, 0, NULL),
    ROW(MLXC_OP_FULL, MLXC_FLOAT32, MLXC_LAYOUT_CONTIGUOUS, 0, accepts_one_value),
    ROW(MLXC_OP_ADD, MLXC_FLOAT32, MLXC_LAYOUT_ANY, MLXC_KERNEL_DONATES_0 | MLXC_KERNEL_DONATES_1, NULL),
    ROW(MLXC_OP_ADD, MLXC_INT32, MLXC_LAYOUT_CONTIGUOUS, 0, NULL),
    ROW(MLXC_OP_MULTIPLY, MLXC_FLOAT32, MLXC_LAYOUT_CONTIGUOUS, 0, NULL),
    ROW(MLXC_OP_MATMUL, MLXC_FLOAT32, MLXC_LAYOUT_CONTIGUOUS, 0, accepts_matrices),
};
const size_t far_n_rows = N_KERNELS;
