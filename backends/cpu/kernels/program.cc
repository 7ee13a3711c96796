/* Runs element-wise programs: tile by tile, every step on a tile before the next tile is begun, so that what
 * lies between the steps stays in the first-level cache.
 *
 * The steps are the loops of the element-wise kernels (elementwise.h), called with registers: tiles of one
 * value. A register is used again once its value has been read for the last time; a value that is an output
 * is made in the output itself. What depends only on repeated elements is computed once, before the tiles.
 *
 * Rule: halves are rounded after every step, so a program gives the very bits that its ops give one by one.
 */
#include "program.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "elementwise.h"
#include "parallel.h"
#include "strided.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr int kMaxStepInputs = 3;
/* What the registers of a tile may take together, about; and the limits of a tile's length. */
constexpr int64_t kTileBytes = 24 * 1024;
constexpr int64_t kShortestTile = 256, kLongestTile = 2048;

struct Step {
  LoopEntry entry;
  int n_inputs;
  int inputs[kMaxStepInputs]; /* values */
  int result;                 /* value */
};

struct Value {
  mlxc_dtype dtype;
  int64_t item_size;
  int output = -1; /* index of the output that it is */
  int place = -1;  /* the register that it lives in, where it is no input and no output */
};

struct Program {
  int n_inputs;
  std::vector<Value> values;
  std::vector<Step> steps;
  std::vector<int> outputs;             /* values */
  int64_t register_bytes;               /* of one element in all registers */
  std::vector<int64_t> register_offset; /* the same, of those before */
  int64_t weight;                       /* of an element, as work */
};

bool is_half_dtype(mlxc_dtype dtype) { return dtype == MLXC_FLOAT16 || dtype == MLXC_BFLOAT16; }

/* The loop that runs the step on its inputs' dtypes and makes its dtype. */
LoopEntry find_loop(const mlxc_program_step& step, const std::vector<Value>& values) {
  const mlxc_dtype first = values[step.inputs[0]].dtype;
  if (step.op == MLXC_OP_ASTYPE) return step.n_inputs == 1 ? cast_loop(first, step.dtype) : LoopEntry{};
  if (step.op == MLXC_OP_WHERE) {
    const bool fits = step.n_inputs == 3 && first == MLXC_BOOL &&
                      values[step.inputs[1]].dtype == step.dtype &&
                      values[step.inputs[2]].dtype == step.dtype;
    return fits ? select_loop(step.dtype) : LoopEntry{};
  }
  for (int i = 1; i < step.n_inputs; i++)
    if (values[step.inputs[i]].dtype != first) return LoopEntry{};
  if (step.n_inputs == 1) return unary_loop(step.op, first);
  if (step.n_inputs != 2 || step.op == MLXC_OP_DIVMOD) return LoopEntry{};
  const LoopEntry entry = binary_loop(step.op, first);
  return entry.exists ? entry : compare_loop(step.op, first);
}

int64_t weight_of(Cost cost) { return cost == Cost::kMemory ? 1 : cost == Cost::kMath ? 2 : 32; }

/* Gives each value between the steps a register, the smallest number of them that last uses allow. */
void place_values(Program* program) {
  std::vector<int> last_use(program->values.size(), -1);
  for (size_t k = 0; k < program->steps.size(); k++)
    for (int i = 0; i < program->steps[k].n_inputs; i++)
      last_use[program->steps[k].inputs[i]] = static_cast<int>(k);
  std::vector<int64_t> sizes; /* of the registers' items */
  std::vector<int> idle;
  for (size_t k = 0; k < program->steps.size(); k++) {
    const Step& step = program->steps[k];
    Value& result = program->values[step.result];
    if (result.output < 0) {
      if (idle.empty()) {
        idle.push_back(static_cast<int>(sizes.size()));
        sizes.push_back(0);
      }
      result.place = idle.back();
      idle.pop_back();
      sizes[result.place] = std::max(sizes[result.place], result.item_size);
    }
    for (int i = 0; i < step.n_inputs; i++) {
      int& last = last_use[step.inputs[i]];
      if (last == static_cast<int>(k) && program->values[step.inputs[i]].place >= 0) {
        idle.push_back(program->values[step.inputs[i]].place);
        last = -1; /* an op may read a value twice */
      }
    }
    if (result.place >= 0 && last_use[step.result] < 0) idle.push_back(result.place);
  }
  program->register_bytes = 0;
  for (int64_t size : sizes) {
    program->register_offset.push_back(program->register_bytes);
    program->register_bytes += size;
  }
}

/* ---- one run ---- */

/* Where a value's elements are: dense memory from element 0 on, strided memory, one element repeated, or
 * a register. */
enum class Place { kDense, kStrided, kRepeated, kRegister };

struct Binding {
  Place place;
  char* base = nullptr;
  alignas(16) char repeated[16];
  alignas(16) float repeated_float = 0; /* the same of a half */
};

struct Run {
  const Program* program;
  std::vector<Binding> bindings;
  std::vector<Walk<1>> walks; /* of the inputs, where they are strided */
  std::vector<bool> once;     /* steps that ran before the tiles */
  int64_t n;
  int64_t tile;
  int64_t grain;
};

/* A step with its places in memory found: those of tile `begin` are begin times the sizes further on. */
struct BoundStep {
  Loop loop;
  const char* in[kMaxStepInputs];
  int64_t in_size[kMaxStepInputs]; /* 0: the same for every tile */
  char* out;
  int64_t out_size;
  unsigned scalars;
  const Step* converting; /* the step, where it has halves to convert; then nothing above counts */
};

/* Memory that runs use one after the other: fresh pages would cost a short run more than its arithmetic. */
struct Block {
  std::unique_ptr<char[]> bytes;
  size_t size = 0;
};
struct Blocks {
  static constexpr size_t kMost = 16, kLargest = size_t{1} << 20;
  std::mutex lock;
  std::vector<Block> idle;
};
Blocks& blocks() {
  static Blocks* instance = [] {
    auto* made = new Blocks;
    made->idle.reserve(Blocks::kMost);
    return made;
  }();
  return *instance;
}

Block take_block(size_t size) {
  {
    Blocks& all = blocks();
    std::lock_guard hold(all.lock);
    for (Block& block : all.idle) {
      if (block.size < size) continue;
      std::swap(block, all.idle.back());
      Block taken = std::move(all.idle.back());
      all.idle.pop_back();
      return taken;
    }
  }
  return {std::unique_ptr<char[]>(new char[size]), size};
}

void give_block(Block block) noexcept {
  Blocks& all = blocks();
  std::lock_guard hold(all.lock);
  if (block.size <= Blocks::kLargest && all.idle.size() < Blocks::kMost) all.idle.push_back(std::move(block));
}

struct Scratch {
  Block memory;
  char* registers;
  char* gathered; /* a tile an input */
  float* converted[kMaxStepInputs];
  float* result;
  std::vector<BoundStep> bound;

  Scratch(const Program& program, int64_t tile) {
    constexpr int64_t kLine = 64;
    bound.reserve(program.steps.size());
    const int64_t floats = tile * static_cast<int64_t>(sizeof(float));
    const int64_t total =
        tile * program.register_bytes + tile * 16 * program.n_inputs + (kMaxStepInputs + 1) * floats + kLine;
    memory = take_block(static_cast<size_t>(total));
    char* start = memory.bytes.get();
    char* at = start + (kLine - reinterpret_cast<uintptr_t>(start) % kLine) % kLine;
    auto take = [&at](int64_t bytes) { return std::exchange(at, at + bytes); };
    registers = take(tile * program.register_bytes);
    gathered = take(tile * 16 * program.n_inputs);
    for (float*& buffer : converted) buffer = reinterpret_cast<float*>(take(floats));
    result = reinterpret_cast<float*>(take(floats));
  }
  ~Scratch() {
    if (memory.bytes) give_block(std::move(memory));
  }
  Scratch(Scratch&&) = default;
};

/* One a thread, made before the threads begin, since what runs on them must not fail. */
class ScratchPool {
 public:
  ScratchPool(const Program& program, int64_t tile, int64_t count) {
    for (int64_t i = 0; i < count; i++) all_.emplace_back(program, tile);
    for (Scratch& scratch : all_) idle_.push_back(&scratch);
  }
  Scratch* take() {
    std::lock_guard hold(lock_);
    Scratch* scratch = idle_.back();
    idle_.pop_back();
    return scratch;
  }
  void give(Scratch* scratch) {
    std::lock_guard hold(lock_);
    idle_.push_back(scratch);
  }

 private:
  std::mutex lock_;
  std::vector<Scratch> all_;
  std::vector<Scratch*> idle_;
};

Place place_of(const mlxc_view* view, Walk<1>* walk) {
  if (view->size == 1) return Place::kRepeated;
  if (view->flags & MLXC_VIEW_ROW_CONTIGUOUS) return Place::kDense;
  *walk = make_walk<1>({view});
  if (walk->ndim > 1) return Place::kStrided;
  const int64_t stride = walk->strides[0][0];
  return stride == 1 ? Place::kDense : stride == 0 ? Place::kRepeated : Place::kStrided;
}

void keep_repeated(Binding* binding, const Value& value, const char* element) {
  binding->place = Place::kRepeated;
  std::copy_n(element, value.item_size, binding->repeated);
  if (is_half_dtype(value.dtype)) halves_to_floats(value.dtype, element, &binding->repeated_float, 1);
}

/* Runs a step whose inputs are all repeated, on the one element. */
void run_once(const Step& step, Run* run) {
  const void* in[kMaxStepInputs];
  for (int i = 0; i < step.n_inputs; i++) {
    const Binding& input = run->bindings[step.inputs[i]];
    const bool convert = step.entry.in_float32 && is_half_dtype(run->program->values[step.inputs[i]].dtype);
    in[i] = convert ? static_cast<const void*>(&input.repeated_float) : input.repeated;
  }
  const Value& value = run->program->values[step.result];
  alignas(16) char element[16];
  alignas(16) float wide;
  const bool convert = step.entry.in_float32 && is_half_dtype(value.dtype);
  void* out[] = {convert ? static_cast<void*>(&wide) : element};
  step.entry.loop(in, out, 1, 0);
  if (convert) floats_to_halves(value.dtype, &wide, element, 1);
  keep_repeated(&run->bindings[step.result], value, element);
}

struct Tile {
  const Run& run;
  Scratch& scratch;
  int64_t begin, n;

  char* register_of(const Value& value) const {
    return scratch.registers + run.program->register_offset[value.place] * run.tile;
  }
  /* The elements of an input value in its own dtype, dense. Strided ones have been gathered. */
  const char* elements(int index) const {
    const Value& value = run.program->values[index];
    const Binding& binding = run.bindings[index];
    switch (binding.place) {
      case Place::kDense: return binding.base + begin * value.item_size;
      case Place::kStrided: return scratch.gathered + index * run.tile * 16;
      case Place::kRepeated: return binding.repeated;
      default: return register_of(value);
    }
  }

  void gather_inputs() const {
    for (int i = 0; i < run.program->n_inputs; i++) {
      const Binding& binding = run.bindings[i];
      if (binding.place != Place::kStrided) continue;
      visit_size(run.program->values[i].item_size, [&](auto tag) {
        using T = typename decltype(tag)::type;
        gather_block(reinterpret_cast<T*>(scratch.gathered + i * run.tile * 16),
                     reinterpret_cast<const T*>(binding.base), run.walks[i], begin, n);
      });
    }
  }

  void run_step(const Step& step) const {
    const void* in[kMaxStepInputs];
    unsigned scalars = 0;
    for (int i = 0; i < step.n_inputs; i++) {
      const int index = step.inputs[i];
      const Binding& binding = run.bindings[index];
      const bool convert = step.entry.in_float32 && is_half_dtype(run.program->values[index].dtype);
      if (binding.place == Place::kRepeated) {
        scalars |= 1u << i;
        in[i] = convert ? static_cast<const void*>(&binding.repeated_float) : binding.repeated;
      } else if (convert) {
        halves_to_floats(run.program->values[index].dtype, elements(index), scratch.converted[i], n);
        in[i] = scratch.converted[i];
      } else {
        in[i] = elements(index);
      }
    }
    const Value& value = run.program->values[step.result];
    char* target = run.bindings[step.result].place == Place::kRegister
                       ? register_of(value)
                       : run.bindings[step.result].base + begin * value.item_size;
    const bool convert = step.entry.in_float32 && is_half_dtype(value.dtype);
    void* out[] = {convert ? static_cast<void*>(scratch.result) : target};
    step.entry.loop(in, out, n, scalars);
    if (convert) floats_to_halves(value.dtype, scratch.result, target, n);
  }
};

/* Finds the places of all steps; in room that is there. */
void bind_steps(const Run& run, Scratch& scratch) {
  const Tile first{run, scratch, 0, 0};
  scratch.bound.clear();
  for (size_t k = 0; k < run.program->steps.size(); k++) {
    if (run.once[k]) continue;
    const Step& step = run.program->steps[k];
    const Value& result = run.program->values[step.result];
    BoundStep bound{step.entry.loop, {}, {}, nullptr, 0, 0, nullptr};
    bool converts = step.entry.in_float32 && is_half_dtype(result.dtype);
    for (int i = 0; i < step.n_inputs; i++) {
      const int index = step.inputs[i];
      const Value& value = run.program->values[index];
      const Place place = run.bindings[index].place;
      converts = converts || (step.entry.in_float32 && is_half_dtype(value.dtype));
      bound.in[i] = first.elements(index);
      if (place == Place::kDense) bound.in_size[i] = value.item_size;
      if (place == Place::kRepeated) bound.scalars |= 1u << i;
    }
    if (run.bindings[step.result].place == Place::kRegister) {
      bound.out = first.register_of(result);
    } else {
      bound.out = run.bindings[step.result].base;
      bound.out_size = result.item_size;
    }
    if (converts) bound.converting = &step;
    scratch.bound.push_back(bound);
  }
}

void run_tile(const Run& run, Scratch& scratch, int64_t begin, int64_t n) {
  const Tile tile{run, scratch, begin, n};
  tile.gather_inputs();
  for (const BoundStep& bound : scratch.bound) {
    if (bound.converting) {
      tile.run_step(*bound.converting);
      continue;
    }
    const void* in[kMaxStepInputs];
    for (int i = 0; i < kMaxStepInputs; i++) in[i] = bound.in[i] + begin * bound.in_size[i];
    void* out[] = {bound.out + begin * bound.out_size};
    bound.loop(in, out, n, bound.scalars);
  }
}

/* As long as a first-level cache allows for what is live in a tile. */
void choose_tile(Run* run) {
  const Program& program = *run->program;
  int64_t live = program.register_bytes;
  for (size_t i = 0; i < program.values.size(); i++)
    if (run->bindings[i].place == Place::kDense || run->bindings[i].place == Place::kStrided)
      live += program.values[i].item_size;
  run->tile = std::clamp(kTileBytes / std::max<int64_t>(live, 1) / kShortestTile * kShortestTile,
                         kShortestTile, kLongestTile);
  run->grain = std::max(run->tile, 32 * 1024 / program.weight);
}

void fill_repeated(const Value& value, const Binding& binding, char* target, int64_t n) {
  visit_size(value.item_size, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T element;
    std::memcpy(&element, binding.repeated, sizeof element);
    std::fill_n(reinterpret_cast<T*>(target), n, element);
  });
}

mlxc_error* make_program(mlxc_backend_device*, const mlxc_program_source* source,
                         mlxc_backend_program** made) try {
  *made = nullptr;
  auto program = std::make_unique<Program>();
  program->n_inputs = source->n_inputs;
  for (int i = 0; i < source->n_inputs; i++)
    program->values.push_back({source->input_dtypes[i], size_of(source->input_dtypes[i])});
  int64_t weight = 0;
  for (int k = 0; k < source->n_steps; k++) {
    const mlxc_program_step& step = *source->steps[k];
    if (step.n_inputs < 1 || step.n_inputs > kMaxStepInputs) return nullptr;
    const LoopEntry entry = find_loop(step, program->values);
    if (!entry.exists) return nullptr;
    Step own{entry, step.n_inputs, {}, static_cast<int>(program->values.size())};
    std::copy_n(step.inputs, step.n_inputs, own.inputs);
    program->steps.push_back(own);
    program->values.push_back({step.dtype, size_of(step.dtype)});
    weight += weight_of(entry.cost);
  }
  for (int i = 0; i < source->n_outputs; i++) {
    program->values[source->outputs[i]].output = i;
    program->outputs.push_back(source->outputs[i]);
  }
  place_values(program.get());
  program->weight = weight;
  *made = reinterpret_cast<mlxc_backend_program*>(program.release());
  return nullptr;
} catch (const std::bad_alloc&) {
  return make_memory_error(sizeof(Program));
}

mlxc_error* run_program(mlxc_backend_stream*, mlxc_backend_program* handle, const mlxc_view* const* inputs,
                        const mlxc_view* const* outputs) try {
  const Program& program = *reinterpret_cast<const Program*>(handle);
  Run run;
  run.program = &program;
  run.n = outputs[0]->size;
  if (run.n == 0) return nullptr;
  run.bindings.resize(program.values.size());
  run.walks.resize(program.n_inputs);
  run.once.resize(program.steps.size());
  for (int i = 0; i < program.n_inputs; i++) {
    Binding& binding = run.bindings[i];
    binding.base = static_cast<char*>(inputs[i]->host);
    binding.place = place_of(inputs[i], &run.walks[i]);
    if (binding.place == Place::kRepeated) keep_repeated(&binding, program.values[i], binding.base);
  }
  bool all_once = true;
  for (size_t k = 0; k < program.steps.size(); k++) {
    const Step& step = program.steps[k];
    bool once = true;
    for (int i = 0; i < step.n_inputs; i++)
      once = once && run.bindings[step.inputs[i]].place == Place::kRepeated;
    run.once[k] = once;
    all_once = all_once && once;
    if (once) {
      run_once(step, &run);
      continue;
    }
    const Value& value = program.values[step.result];
    Binding& binding = run.bindings[step.result];
    binding.place = value.output < 0 ? Place::kRegister : Place::kDense;
    if (value.output >= 0) binding.base = static_cast<char*>(outputs[value.output]->host);
  }
  for (int index : program.outputs) {
    const Value& value = program.values[index];
    if (run.bindings[index].place == Place::kRepeated)
      fill_repeated(value, run.bindings[index], static_cast<char*>(outputs[value.output]->host), run.n);
  }
  if (all_once) return nullptr;
  choose_tile(&run);
  ScratchPool pool(program, run.tile, run.n <= run.grain ? 1 : host->thread_count() + 1);
  parallel_for(run.n, run.grain, [&](int64_t begin, int64_t end) {
    Scratch* scratch = pool.take();
    bind_steps(run, *scratch);
    for (; begin < end; begin += run.tile) run_tile(run, *scratch, begin, std::min(run.tile, end - begin));
    pool.give(scratch);
  });
  return nullptr;
} catch (const std::bad_alloc&) {
  return make_memory_error(sizeof(Run));
}

void free_program(mlxc_backend_device*, mlxc_backend_program* program) {
  delete reinterpret_cast<Program*>(program);
}

}  // namespace

ProgramFunctions program_functions() { return {make_program, run_program, free_program}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
