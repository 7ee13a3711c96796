// How a program is run on a device: which neighbouring element-wise steps become one program of the backend,
// so that what lies between them never goes through memory; and in what order.
//
// Rule: a plan changes what is written to memory, never a value.
#pragma once

#include <memory>
#include <vector>

#include "core/device.h"
#include "core/program.h"

namespace mlxc {

// An element-wise program of a backend.
class ElementProgram {
 public:
  ElementProgram(Device* device, mlxc_backend_program* handle) : device_(device), handle_(handle) {}
  ~ElementProgram();
  ElementProgram(const ElementProgram&) = delete;
  ElementProgram& operator=(const ElementProgram&) = delete;
  mlxc_error* run(mlxc_backend_stream* stream, const mlxc_view* const* inputs,
                  const mlxc_view* const* outputs) const;

 private:
  Device* device_;
  mlxc_backend_program* handle_;
};

struct Plan {
  // A step, or several that run as one.
  struct Unit {
    uint32_t step;                             // the first
    std::unique_ptr<ElementProgram> elements;  // null: the step by itself
    std::vector<uint32_t> inputs, outputs;     // slots
  };
  Device* device;  // of steps that name no stream
  std::vector<Unit> units;
};

std::shared_ptr<const Plan> make_plan(const Program& program, Device* device);

}  // namespace mlxc
