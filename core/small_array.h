// An array of a length that is known late, whose items lie in place up to N of them: for the outputs of an
// op, of which there are one or two nearly always, so that recording and running them allocate nothing.
#pragma once

#include <memory>

namespace mlxc {

template <class T, int N>
class SmallArray {
 public:
  SmallArray() = default;
  explicit SmallArray(int count) { resize(count); }
  SmallArray(const SmallArray&) = delete;
  SmallArray& operator=(const SmallArray&) = delete;
  // Once, before the items are used.
  void resize(int count) {
    if (count > N) more_ = std::make_unique<T[]>(static_cast<size_t>(count));
  }
  T* data() { return more_ ? more_.get() : few_; }
  T& operator[](int i) { return data()[i]; }

 private:
  T few_[N];
  std::unique_ptr<T[]> more_;
};

}  // namespace mlxc
