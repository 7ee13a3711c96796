/* mlxc: the embedding ABI. Include this one file; link with libmlxc. */
#ifndef MLXC_H
#define MLXC_H

#include "mlxc/array.h"
#include "mlxc/control.h"
#include "mlxc/device.h"
#include "mlxc/kernel.h"
#include "mlxc/ops.h"
#include "mlxc/program.h"
#include "mlxc/random.h"
#include "mlxc/transform.h"
#include "mlxc/types.h"

#endif
