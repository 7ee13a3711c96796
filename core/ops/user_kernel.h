// Ops whose source the user brings. A UserKernel holds the texts and what was compiled of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/op.h"
#include "core/record.h"
#include "mlxc/backend.h"
#include "mlxc/kernel.h"

namespace mlxc {

struct Device;

class UserKernel {
 public:
  struct Source {
    std::string backend, body, header;
  };
  struct Constant {
    std::string name;
    mlxc_constant value;
  };

  std::string name, options;
  std::vector<std::string> input_names, output_names;
  std::vector<Source> sources;
  bool any_layout = false;
  bool atomic_outputs = false;

  UserKernel() = default;
  UserKernel(const UserKernel&) = delete;
  UserKernel& operator=(const UserKernel&) = delete;
  ~UserKernel();

  // The source for the device; throws where there is none, or the backend runs no user kernels.
  const Source& source_for(Device* device) const;
  // What was compiled for the device and the node's dtypes and numbers of axes, or is now.
  mlxc_backend_kernel* compiled_for(Device* device, const Node& node, const std::vector<Constant>& constants);

 private:
  std::mutex lock_;
  std::map<std::pair<Device*, std::string>, mlxc_backend_kernel*> compiled_;
};

struct UserKernelCall : Attachment {
  std::shared_ptr<UserKernel> kernel;
  std::vector<UserKernel::Constant> constants;
  mlxc_user_kernel_launch launch{};
  std::optional<double> init;
};

// Records a call on the current stream.
std::vector<Array> call_user_kernel(std::shared_ptr<UserKernelCall> call, std::span<const Array> inputs,
                                    std::span<const OutSpec> outputs);

}  // namespace mlxc
