/* Every op by mlxc_apply: once as it should be called, then with each kind of NULL and wrong count.
 *
 * A wrong call must return MLXC_ERROR_VALUE, make no array and leave the library usable, which the
 * next right call proves. A new op that lacks its case here makes the program fail. bad_calls.c has
 * the errors that are particular to an op.
 */
#include "check.h"

/* ---- inputs, one letter each ---------------------------------------------------------------- */

enum { MAX_INPUTS = 8 };

static mlxc_array* inputs_by_letter[128];

static mlxc_array* new_array(mlxc_dtype dtype, int32_t ndim, const int64_t* shape, const void* data) {
  mlxc_array* made = NULL;
  OK(mlxc_array_from_host(data, dtype, ndim, shape, &made));
  return made;
}

static void make_inputs(void) {
  float floats[64], definite[16];
  int32_t ints[16];
  unsigned char bools[16];
  const uint32_t key[2] = {0, 7};
  const int32_t indices[3] = {3, 0, 2};
  const int64_t matrix[2] = {4, 4}, flat[2] = {1, 4}, small[2] = {2, 2}, rows[2] = {3, 4}, three[1] = {3},
                two[1] = {2}, image[4] = {1, 4, 4, 2}, filters[4] = {3, 2, 2, 2}, heads[3] = {1, 4, 4},
                memory[4] = {1, 4, 2, 2}, wide[2] = {2, 32}, words[2] = {2, 4}, groups[2] = {2, 1},
                one[1] = {1};
  const uint32_t codes[8] = {0x76543210, 0xfedcba98, 1, 2, 3, 4, 5, 6}, segments[4] = {0, 2, 2, 4};
  const unsigned char bytes[16] = {0x38, 0x40, 0xb8, 0x7f};
  for (int i = 0; i < 64; i++) floats[i] = 0.1f + 0.0125f * (float)i;
  for (int i = 0; i < 16; i++) {
    ints[i] = i % 4;
    bools[i] = i % 3 == 0;
    definite[i] = i % 5 == 0 ? 5.0f : 1.0f;
  }
  inputs_by_letter['f'] = new_array(MLXC_FLOAT32, 2, matrix, floats);
  inputs_by_letter['d'] = new_array(MLXC_FLOAT32, 2, matrix, definite);
  inputs_by_letter['i'] = new_array(MLXC_INT32, 2, matrix, ints);
  inputs_by_letter['b'] = new_array(MLXC_BOOL, 2, matrix, bools);
  inputs_by_letter['s'] = new_array(MLXC_FLOAT32, 0, NULL, floats);
  inputs_by_letter['q'] = new_array(MLXC_FLOAT32, 2, flat, floats);
  inputs_by_letter['v'] = new_array(MLXC_FLOAT32, 2, small, floats);
  inputs_by_letter['y'] = new_array(MLXC_FLOAT32, 2, rows, floats);
  inputs_by_letter['x'] = new_array(MLXC_INT32, 1, three, indices);
  inputs_by_letter['k'] = new_array(MLXC_UINT32, 1, two, key);
  inputs_by_letter['c'] = new_array(MLXC_FLOAT32, 4, image, floats);
  inputs_by_letter['w'] = new_array(MLXC_FLOAT32, 4, filters, floats);
  inputs_by_letter['h'] = new_array(MLXC_FLOAT32, 3, heads, floats);
  inputs_by_letter['m'] = new_array(MLXC_FLOAT32, 4, memory, floats);
  inputs_by_letter['r'] = new_array(MLXC_FLOAT32, 1, three, floats);
  inputs_by_letter['n'] = new_array(MLXC_INT32, 0, NULL, ints);
  inputs_by_letter['W'] = new_array(MLXC_FLOAT32, 2, wide, floats);
  inputs_by_letter['P'] = new_array(MLXC_UINT32, 2, words, codes);
  inputs_by_letter['S'] = new_array(MLXC_FLOAT32, 2, groups, floats);
  inputs_by_letter['Z'] = new_array(MLXC_UINT32, 1, one, segments);
  inputs_by_letter['G'] = new_array(MLXC_UINT32, 2, small, segments);
  inputs_by_letter['B'] = new_array(MLXC_UINT8, 2, matrix, bytes);
  inputs_by_letter['t'] = new_array(MLXC_BOOL, 0, NULL, bools);
}

static void release_inputs(void) {
  for (int i = 0; i < 128; i++) mlxc_array_release(inputs_by_letter[i]);
}

/* ---- a right call of every op --------------------------------------------------------------- */

typedef struct op_case {
  int32_t op;
  const char* inputs; /* letters */
  const void* params;
  size_t params_size;
} op_case;

#define AXES1(a) \
  {              \
    1, { a }     \
  }
#define AXES2(a, b) \
  {                 \
    2, { a, b }     \
  }
#define AXES3(a, b, c) \
  {                    \
    3, { a, b, c }     \
  }
static const mlxc_astype_params astype = {sizeof astype, MLXC_FLOAT64};
static const mlxc_bitcast_params bitcast = {sizeof bitcast, MLXC_INT32};
static const mlxc_full_params full = {sizeof full, AXES2(2, 3)};
static const mlxc_arange_params arange = {sizeof arange, 1, 0.5, 10, MLXC_FLOAT32};
/* All reductions have the same parameters. */
static const mlxc_sum_params reduce = {sizeof reduce, AXES1(0), 1};
static const mlxc_argmin_params argreduce = {sizeof argreduce, -1, 0};
static const mlxc_softmax_params softmax = {sizeof softmax, AXES1(1), 1};
static const mlxc_cumsum_params scan = {sizeof scan, 1, 1, 1};
static const mlxc_conv_params conv = {sizeof conv, AXES2(1, 1), AXES2(0, 0), AXES2(1, 1),
                                      AXES2(1, 1), AXES2(1, 1), 1,           0};
static const mlxc_reshape_params reshape = {sizeof reshape, AXES2(2, 8)};
static const mlxc_transpose_params transpose = {sizeof transpose, AXES2(1, 0)};
static const mlxc_broadcast_to_params broadcast_to = {sizeof broadcast_to, AXES3(2, 4, 4)};
static const mlxc_expand_dims_params expand_dims = {sizeof expand_dims, AXES1(0)};
static const mlxc_squeeze_params squeeze = {sizeof squeeze, AXES1(0)};
static const mlxc_slice_params slice = {sizeof slice, AXES2(1, 3), AXES2(1, -2), AXES2(2, 2)};
static const mlxc_slice_update_params slice_update = {sizeof slice_update, AXES2(1, 3), AXES2(1, -2),
                                                      AXES2(2, 2)};
static const mlxc_concatenate_params concatenate = {sizeof concatenate, 0};
static const mlxc_pad_params pad = {sizeof pad, AXES2(1, 0), AXES2(0, 2)};
static const mlxc_gather_params gather = {sizeof gather, AXES1(0)};
static const mlxc_scatter_params scatter = {sizeof scatter, AXES1(0), 1};
static const mlxc_gather_axis_params gather_axis = {sizeof gather_axis, 1};
static const mlxc_scatter_axis_params scatter_axis = {sizeof scatter_axis, 1, 0};
static const mlxc_sort_params sort = {sizeof sort, -1};
static const mlxc_topk_params topk = {sizeof topk, 2, 1};
static const mlxc_partition_params partition = {sizeof partition, 1, 2};
static const mlxc_argpartition_params argpartition = {sizeof argpartition, 0, -1};
static const mlxc_random_bits_params random_bits = {sizeof random_bits, AXES2(3, 3), 4};
static const mlxc_fft_params fft = {sizeof fft, AXES2(0, 1), 0, 1};
static const mlxc_rfft_params rfft = {sizeof rfft, AXES2(0, 1), 1};
static const mlxc_irfft_params irfft = {sizeof irfft, AXES2(0, 1), 6, 1};
static const mlxc_rms_norm_params rms_norm = {sizeof rms_norm, 1e-5};
static const mlxc_rms_norm_grad_params rms_norm_grad = {sizeof rms_norm_grad, 1e-5};
static const mlxc_layer_norm_params layer_norm = {sizeof layer_norm, 1e-5};
static const mlxc_layer_norm_grad_params layer_norm_grad = {sizeof layer_norm_grad, 1e-5};
static const mlxc_rope_params rope = {sizeof rope, 2, 0, 10000, 1, 0};
static const mlxc_scaled_dot_product_attention_params attention = {sizeof attention, 0.5, 1, 0, 0};
static const mlxc_attention_grad_params attention_grad = {sizeof attention_grad, 0.5, 1, 0};

static const mlxc_quantize_params quantize = {sizeof quantize, 32, 4, 0};
static const mlxc_quantize_dequantize_params quantize_dequantize = {sizeof quantize_dequantize, 32, 4, 0};
static const mlxc_dequantize_params dequantize = {sizeof dequantize, 32, 4, 0, MLXC_FLOAT32};
static const mlxc_from_fp8_params from_fp8 = {sizeof from_fp8, MLXC_FLOAT32};
static const mlxc_quantized_matmul_params quantized_matmul = {sizeof quantized_matmul, 1, 32, 4, 0};
static const mlxc_gather_qmm_params gather_qmm = {sizeof gather_qmm, 1, 32, 4, 0};
static const mlxc_hadamard_transform_params hadamard = {sizeof hadamard, 0.5, 0};

static const mlxc_cholesky_params triangle = {sizeof triangle, 1};

#define WITH(params) &params, sizeof params
static const op_case cases[] = {
    {MLXC_OP_ABS, "f", NULL, 0},
    {MLXC_OP_SIGN, "f", NULL, 0},
    {MLXC_OP_NEGATIVE, "f", NULL, 0},
    {MLXC_OP_SQUARE, "f", NULL, 0},
    {MLXC_OP_SQRT, "f", NULL, 0},
    {MLXC_OP_RSQRT, "f", NULL, 0},
    {MLXC_OP_RECIPROCAL, "f", NULL, 0},
    {MLXC_OP_EXP, "f", NULL, 0},
    {MLXC_OP_EXPM1, "f", NULL, 0},
    {MLXC_OP_LOG, "f", NULL, 0},
    {MLXC_OP_LOG2, "f", NULL, 0},
    {MLXC_OP_LOG10, "f", NULL, 0},
    {MLXC_OP_LOG1P, "f", NULL, 0},
    {MLXC_OP_SIN, "f", NULL, 0},
    {MLXC_OP_COS, "f", NULL, 0},
    {MLXC_OP_TAN, "f", NULL, 0},
    {MLXC_OP_ARCSIN, "f", NULL, 0},
    {MLXC_OP_ARCCOS, "f", NULL, 0},
    {MLXC_OP_ARCTAN, "f", NULL, 0},
    {MLXC_OP_SINH, "f", NULL, 0},
    {MLXC_OP_COSH, "f", NULL, 0},
    {MLXC_OP_TANH, "f", NULL, 0},
    {MLXC_OP_ARCSINH, "f", NULL, 0},
    {MLXC_OP_ARCCOSH, "f", NULL, 0},
    {MLXC_OP_ARCTANH, "f", NULL, 0},
    {MLXC_OP_SIGMOID, "f", NULL, 0},
    {MLXC_OP_ERF, "f", NULL, 0},
    {MLXC_OP_ERFINV, "f", NULL, 0},
    {MLXC_OP_FLOOR, "f", NULL, 0},
    {MLXC_OP_CEIL, "f", NULL, 0},
    {MLXC_OP_TRUNC, "f", NULL, 0},
    {MLXC_OP_RINT, "f", NULL, 0},
    {MLXC_OP_CONJUGATE, "f", NULL, 0},
    {MLXC_OP_REAL, "f", NULL, 0},
    {MLXC_OP_IMAG, "f", NULL, 0},
    {MLXC_OP_LOGICAL_NOT, "f", NULL, 0},
    {MLXC_OP_BITWISE_INVERT, "i", NULL, 0},
    {MLXC_OP_ISNAN, "f", NULL, 0},
    {MLXC_OP_ISINF, "f", NULL, 0},
    {MLXC_OP_ISFINITE, "f", NULL, 0},
    {MLXC_OP_SIGNBIT, "f", NULL, 0},
    {MLXC_OP_ADD, "ff", NULL, 0},
    {MLXC_OP_SUBTRACT, "ff", NULL, 0},
    {MLXC_OP_MULTIPLY, "ff", NULL, 0},
    {MLXC_OP_DIVIDE, "ff", NULL, 0},
    {MLXC_OP_FLOOR_DIVIDE, "ff", NULL, 0},
    {MLXC_OP_REMAINDER, "ff", NULL, 0},
    {MLXC_OP_POWER, "ff", NULL, 0},
    {MLXC_OP_MAXIMUM, "ff", NULL, 0},
    {MLXC_OP_MINIMUM, "ff", NULL, 0},
    {MLXC_OP_LOGADDEXP, "ff", NULL, 0},
    {MLXC_OP_ARCTAN2, "ff", NULL, 0},
    {MLXC_OP_HYPOT, "ff", NULL, 0},
    {MLXC_OP_COPYSIGN, "ff", NULL, 0},
    {MLXC_OP_NEXTAFTER, "ff", NULL, 0},
    {MLXC_OP_BITWISE_AND, "ii", NULL, 0},
    {MLXC_OP_BITWISE_OR, "ii", NULL, 0},
    {MLXC_OP_BITWISE_XOR, "ii", NULL, 0},
    {MLXC_OP_LEFT_SHIFT, "ii", NULL, 0},
    {MLXC_OP_RIGHT_SHIFT, "ii", NULL, 0},
    {MLXC_OP_EQUAL, "ff", NULL, 0},
    {MLXC_OP_NOT_EQUAL, "ff", NULL, 0},
    {MLXC_OP_LESS, "ff", NULL, 0},
    {MLXC_OP_LESS_EQUAL, "ff", NULL, 0},
    {MLXC_OP_GREATER, "ff", NULL, 0},
    {MLXC_OP_GREATER_EQUAL, "ff", NULL, 0},
    {MLXC_OP_LOGICAL_AND, "ff", NULL, 0},
    {MLXC_OP_LOGICAL_OR, "ff", NULL, 0},
    {MLXC_OP_LOGICAL_XOR, "ff", NULL, 0},
    {MLXC_OP_DIVMOD, "ff", NULL, 0},
    {MLXC_OP_WHERE, "bff", NULL, 0},
    {MLXC_OP_CONTIGUOUS, "f", NULL, 0},
    {MLXC_OP_ASTYPE, "f", WITH(astype)},
    {MLXC_OP_BITCAST, "f", WITH(bitcast)},
    {MLXC_OP_STOP_GRADIENT, "f", NULL, 0},
    {MLXC_OP_FULL, "s", WITH(full)},
    {MLXC_OP_ARANGE, "", WITH(arange)},
    {MLXC_OP_SUM, "f", WITH(reduce)},
    {MLXC_OP_PROD, "f", WITH(reduce)},
    {MLXC_OP_MIN, "f", WITH(reduce)},
    {MLXC_OP_MAX, "f", WITH(reduce)},
    {MLXC_OP_MEAN, "f", WITH(reduce)},
    {MLXC_OP_ALL, "f", WITH(reduce)},
    {MLXC_OP_ANY, "f", WITH(reduce)},
    {MLXC_OP_LOGSUMEXP, "f", WITH(reduce)},
    {MLXC_OP_ARGMIN, "f", WITH(argreduce)},
    {MLXC_OP_ARGMAX, "f", WITH(argreduce)},
    {MLXC_OP_SOFTMAX, "f", WITH(softmax)},
    {MLXC_OP_CUMSUM, "f", WITH(scan)},
    {MLXC_OP_CUMPROD, "f", WITH(scan)},
    {MLXC_OP_CUMMAX, "f", WITH(scan)},
    {MLXC_OP_CUMMIN, "f", WITH(scan)},
    {MLXC_OP_MATMUL, "ff", NULL, 0},
    {MLXC_OP_CONV, "cw", WITH(conv)},
    {MLXC_OP_RESHAPE, "f", WITH(reshape)},
    {MLXC_OP_TRANSPOSE, "f", WITH(transpose)},
    {MLXC_OP_BROADCAST_TO, "f", WITH(broadcast_to)},
    {MLXC_OP_EXPAND_DIMS, "f", WITH(expand_dims)},
    {MLXC_OP_SQUEEZE, "q", WITH(squeeze)},
    {MLXC_OP_SLICE, "f", WITH(slice)},
    {MLXC_OP_SLICE_UPDATE, "fv", WITH(slice_update)},
    {MLXC_OP_CONCATENATE, "ff", WITH(concatenate)},
    {MLXC_OP_PAD, "fs", WITH(pad)},
    {MLXC_OP_GATHER, "fx", WITH(gather)},
    {MLXC_OP_SCATTER, "fyx", WITH(scatter)},
    {MLXC_OP_GATHER_AXIS, "fi", WITH(gather_axis)},
    {MLXC_OP_SCATTER_AXIS, "fif", WITH(scatter_axis)},
    {MLXC_OP_SORT, "f", WITH(sort)},
    {MLXC_OP_ARGSORT, "f", WITH(sort)},
    {MLXC_OP_TOPK, "f", WITH(topk)},
    {MLXC_OP_PARTITION, "f", WITH(partition)},
    {MLXC_OP_ARGPARTITION, "f", WITH(argpartition)},
    {MLXC_OP_RANDOM_BITS, "k", WITH(random_bits)},
    {MLXC_OP_FFT, "f", WITH(fft)},
    {MLXC_OP_RFFT, "f", WITH(rfft)},
    {MLXC_OP_IRFFT, "f", WITH(irfft)},
    {MLXC_OP_RMS_NORM, "fs", WITH(rms_norm)},
    {MLXC_OP_RMS_NORM_GRAD, "fsf", WITH(rms_norm_grad)},
    {MLXC_OP_LAYER_NORM, "fss", WITH(layer_norm)},
    {MLXC_OP_LAYER_NORM_GRAD, "fsf", WITH(layer_norm_grad)},
    {MLXC_OP_ROPE, "cn", WITH(rope)},
    {MLXC_OP_SCALED_DOT_PRODUCT_ATTENTION, "ccc", WITH(attention)},
    {MLXC_OP_ATTENTION_GRAD, "ccchhc", WITH(attention_grad)},
    {MLXC_OP_CROSS_ENTROPY, "yx", NULL, 0},
    {MLXC_OP_CROSS_ENTROPY_GRAD, "yxrr", NULL, 0},
    {MLXC_OP_QUANTIZE, "W", WITH(quantize)},
    {MLXC_OP_DEQUANTIZE, "PSS", WITH(dequantize)},
    {MLXC_OP_QUANTIZE_DEQUANTIZE, "W", WITH(quantize_dequantize)},
    {MLXC_OP_TO_FP8, "f", NULL, 0},
    {MLXC_OP_FROM_FP8, "B", WITH(from_fp8)},
    {MLXC_OP_QUANTIZED_MATMUL, "WPSS", WITH(quantized_matmul)},
    {MLXC_OP_GATHER_QMM, "WPSZZS", WITH(gather_qmm)},
    {MLXC_OP_GATHER_MM, "ffZZ", NULL, 0},
    {MLXC_OP_SEGMENTED_MM, "ffG", NULL, 0},
    {MLXC_OP_HADAMARD_TRANSFORM, "f", WITH(hadamard)},
    {MLXC_OP_GATED_DELTA, "ccchhmt", NULL, 0},
    /* The only parameter of each is a bool. */
    {MLXC_OP_CHOLESKY, "d", WITH(triangle)},
    {MLXC_OP_QR, "y", WITH(triangle)},
    {MLXC_OP_LU_FACTOR, "y", NULL, 0},
    {MLXC_OP_INVERSE, "d", NULL, 0},
    {MLXC_OP_TRI_INVERSE, "d", WITH(triangle)},
    {MLXC_OP_SOLVE, "df", NULL, 0},
    {MLXC_OP_SOLVE_TRIANGULAR, "df", WITH(triangle)},
    {MLXC_OP_DET, "d", NULL, 0},
    {MLXC_OP_SLOGDET, "d", NULL, 0},
    {MLXC_OP_COFACTOR, "d", NULL, 0},
    {MLXC_OP_EIGH, "d", WITH(triangle)},
    {MLXC_OP_EIGVALSH, "d", WITH(triangle)},
    {MLXC_OP_EIG, "d", NULL, 0},
    {MLXC_OP_EIGVALS, "d", NULL, 0},
    {MLXC_OP_SVD, "y", WITH(triangle)},
    {MLXC_OP_SVDVALS, "y", NULL, 0},
    {MLXC_OP_PINV, "ys", NULL, 0},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static const op_case* find_case(int32_t op) {
  for (int i = 0; i < N_CASES; i++)
    if (cases[i].op == op) return &cases[i];
  fprintf(stderr, "op %d (%s) has no case in ops_from_c.c\n", (int)op, mlxc_op_name(op));
  exit(1);
}

/* ---- calls ---------------------------------------------------------------------------------- */

enum { MAX_OUTPUTS = 4 };
static mlxc_array* outputs[MAX_OUTPUTS];

static size_t get_inputs(const op_case* c, mlxc_array** inputs) {
  size_t n = strlen(c->inputs);
  for (size_t i = 0; i < n; i++) inputs[i] = inputs_by_letter[(int)c->inputs[i]];
  return n;
}

/* The call must fail with MLXC_ERROR_VALUE and must not have made anything. */
static void refuse(const op_case* c, const char* what, mlxc_error* error) {
  if (mlxc_error_code(error) != MLXC_ERROR_VALUE || mlxc_error_text(error)[0] == '\0') {
    fprintf(stderr, "%s with %s: error %d: %s\n", mlxc_op_name(c->op), what, (int)mlxc_error_code(error),
            mlxc_error_text(error));
    exit(1);
  }
  mlxc_error_free(error);
  for (int i = 0; i < MAX_OUTPUTS; i++) REQUIRE(outputs[i] == NULL);
}

static void call_rightly(const op_case* c) {
  mlxc_array* inputs[MAX_INPUTS];
  size_t n = get_inputs(c, inputs), n_out = (size_t)mlxc_op_output_count(c->op);
  mlxc_error* error = mlxc_apply(c->op, inputs, n, c->params, NULL, outputs, n_out);
  if (error == NULL) error = mlxc_eval(outputs, n_out);
  if (error != NULL) fprintf(stderr, "%s: %s\n", mlxc_op_name(c->op), mlxc_error_text(error));
  REQUIRE(error == NULL);
  for (size_t i = 0; i < n_out; i++) {
    REQUIRE(mlxc_array_status(outputs[i]) == 1);
    mlxc_array_release(outputs[i]);
    outputs[i] = NULL;
  }
}

static void call_with_wrong_inputs(const op_case* c) {
  mlxc_array* inputs[MAX_INPUTS] = {NULL};
  size_t n = get_inputs(c, inputs), n_out = (size_t)mlxc_op_output_count(c->op);
  if (n > 0) {
    refuse(c, "NULL for the inputs", mlxc_apply(c->op, NULL, n, c->params, NULL, outputs, n_out));
    refuse(c, "no input", mlxc_apply(c->op, inputs, 0, c->params, NULL, outputs, n_out));
  }
  for (size_t i = 0; i < n; i++) {
    mlxc_array* kept = inputs[i];
    inputs[i] = NULL;
    refuse(c, "a NULL input", mlxc_apply(c->op, inputs, n, c->params, NULL, outputs, n_out));
    inputs[i] = kept;
  }
  if (c->op == MLXC_OP_CONCATENATE) return;
  inputs[n] = inputs_by_letter['x'];
  refuse(c, "one input too many", mlxc_apply(c->op, inputs, n + 1, c->params, NULL, outputs, n_out));
}

static void call_with_wrong_outputs(const op_case* c) {
  mlxc_array* inputs[MAX_INPUTS];
  size_t n = get_inputs(c, inputs), n_out = (size_t)mlxc_op_output_count(c->op);
  refuse(c, "NULL for the outputs", mlxc_apply(c->op, inputs, n, c->params, NULL, NULL, n_out));
  refuse(c, "no output", mlxc_apply(c->op, inputs, n, c->params, NULL, outputs, 0));
  refuse(c, "an output too many", mlxc_apply(c->op, inputs, n, c->params, NULL, outputs, n_out + 1));
}

static void call_with_wrong_params(const op_case* c) {
  if (c->params == NULL) return;
  mlxc_array* inputs[MAX_INPUTS];
  size_t n = get_inputs(c, inputs), n_out = (size_t)mlxc_op_output_count(c->op);
  refuse(c, "NULL for the parameters", mlxc_apply(c->op, inputs, n, NULL, NULL, outputs, n_out));
  /* Each struct begins with its size. */
  char* params = calloc(1, c->params_size + 64);
  REQUIRE(params != NULL);
  const size_t wrong[2] = {0, sizeof(size_t) - 1};
  for (int i = 0; i < 2; i++) {
    memcpy(params, c->params, c->params_size);
    memcpy(params, &wrong[i], sizeof wrong[i]);
    refuse(c, "a wrong struct_size", mlxc_apply(c->op, inputs, n, params, NULL, outputs, n_out));
  }
  /* A program built against a newer minor has more fields than this library reads. */
  const size_t newer = c->params_size + 64;
  memcpy(params, &newer, sizeof newer);
  OK(mlxc_apply(c->op, inputs, n, params, NULL, outputs, n_out));
  for (size_t i = 0; i < n_out; i++) {
    mlxc_array_release(outputs[i]);
    outputs[i] = NULL;
  }
  free(params);
}

static void call_unknown_ops(void) {
  const int32_t unknown[5] = {0, -1, MLXC_OP_COUNT, INT32_MAX, INT32_MIN};
  mlxc_array* inputs[1] = {inputs_by_letter['f']};
  for (int i = 0; i < 5; i++) {
    FAILS(MLXC_ERROR_VALUE, mlxc_apply(unknown[i], inputs, 1, NULL, NULL, outputs, 1));
    REQUIRE(outputs[0] == NULL);
    REQUIRE(mlxc_op_name(unknown[i]) == NULL);
    REQUIRE(mlxc_op_output_count(unknown[i]) == 0);
  }
  REQUIRE(mlxc_op_from_name("no such op") == 0);
  REQUIRE(mlxc_op_from_name(NULL) == 0);
}

int main(void) {
  OK(mlxc_init());
  make_inputs();
  int called = 0;
  for (int32_t op = 1; op < MLXC_OP_COUNT; op++) {
    if (mlxc_op_name(op) == NULL) continue; /* a number whose op is gone */
    REQUIRE(mlxc_op_from_name(mlxc_op_name(op)) == op);
    if (mlxc_op_output_count(op) < 0) { /* has a function of its own */
      FAILS(MLXC_ERROR_VALUE, mlxc_apply(op, NULL, 0, NULL, NULL, outputs, 1));
      continue;
    }
    const op_case* c = find_case(op);
    call_rightly(c);
    call_with_wrong_inputs(c);
    call_with_wrong_outputs(c);
    call_with_wrong_params(c);
    call_rightly(c);
    called++;
  }
  call_unknown_ops();
  release_inputs();
  REQUIRE(mlxc_memory_active() == 0);
  printf("%d ops called rightly and wrongly\n", called);
  return 0;
}
