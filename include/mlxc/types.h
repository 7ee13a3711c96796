/* Types shared by the embedding ABI (mlxc.h) and the backend ABI (backend.h).
 *
 * Plain C11, also valid C++20. Every public name begins with mlxc_ or MLXC_.
 * Values of the enumerations are part of the ABI: they are appended to, never
 * renumbered. Sizes are 64-bit everywhere. Strings are UTF-8.
 */
#ifndef MLXC_TYPES_H
#define MLXC_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#if defined(MLXC_BUILDING_CORE)
#define MLXC_API __declspec(dllexport)
#else
#define MLXC_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define MLXC_API __attribute__((visibility("default")))
#else
#define MLXC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Most axes an array can have. */
#define MLXC_MAX_NDIM 32

/* Element types. */
typedef int32_t mlxc_dtype;
enum {
  MLXC_BOOL = 0, /* one byte, 0 or 1 */
  MLXC_UINT8 = 1,
  MLXC_UINT16 = 2,
  MLXC_UINT32 = 3,
  MLXC_UINT64 = 4,
  MLXC_INT8 = 5,
  MLXC_INT16 = 6,
  MLXC_INT32 = 7,
  MLXC_INT64 = 8,
  MLXC_FLOAT16 = 9,
  MLXC_BFLOAT16 = 10,
  MLXC_FLOAT32 = 11,
  MLXC_FLOAT64 = 12,
  MLXC_COMPLEX64 = 13,
  MLXC_COMPLEX128 = 14,
  MLXC_DTYPE_COUNT = 15
};

/* Sets of dtypes, as bits of a 32-bit mask. */
typedef uint32_t mlxc_dtype_mask;
#define MLXC_DTYPE_BIT(dtype) (UINT32_C(1) << (dtype))
#define MLXC_DTYPES_ALL ((UINT32_C(1) << MLXC_DTYPE_COUNT) - 1)

/* What went wrong. Python raises the exception named beside each code. */
typedef int32_t mlxc_code;
enum {
  MLXC_OK = 0,
  MLXC_ERROR_VALUE = 1,       /* ValueError: shapes, values, NULL handles, bad struct sizes */
  MLXC_ERROR_TYPE = 2,        /* TypeError: dtypes */
  MLXC_ERROR_INDEX = 3,       /* IndexError: an index out of range */
  MLXC_ERROR_MEMORY = 4,      /* MemoryError */
  MLXC_ERROR_OS = 5,          /* OSError: files, libraries that cannot be opened */
  MLXC_ERROR_UNSUPPORTED = 6, /* TypeError: no kernel for this op, dtype and device */
  MLXC_ERROR_RUNTIME = 7,     /* RuntimeError: a device failed, a callback failed */
  MLXC_ERROR_AXIS = 8,        /* an exception that is both ValueError and IndexError */
  MLXC_ERROR_INTERRUPTED = 9  /* KeyboardInterrupt: the interrupt hook asked to stop */
};

/* An error object. NULL means success. Whoever receives one owns it and frees it with
 * mlxc_error_free (a backend: passes it on to the core, which then owns it). */
typedef struct mlxc_error mlxc_error;

/* Kinds of device. */
typedef int32_t mlxc_device_kind;
enum { MLXC_CPU = 0, MLXC_GPU = 1 };

/* A constant of a user kernel, known when it is compiled. */
enum { MLXC_CONSTANT_INT = 0, MLXC_CONSTANT_BOOL = 1, MLXC_CONSTANT_DTYPE = 2 };
typedef struct mlxc_constant {
  int32_t kind;
  int64_t value; /* for a dtype: its mlxc_dtype */
} mlxc_constant;

#ifdef __cplusplus
}
#endif
#endif
