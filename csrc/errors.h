// Failures inside torch, with torch's text and type. Its C interface turns exceptions into an error code: the text of
// the latest stays with the thread (from torch 2.13 on; older ones only print it), the type is gone.
#pragma once

#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>

namespace c10 {  // only the names count: torch catches an exception by the name of its type
struct Error : std::exception {};
struct OutOfMemoryError : Error {};
}  // namespace c10

namespace customops {

// Of every C++ runtime; compilers declare the second in ways of their own.
void* allocate_exception(size_t) asm("__cxa_allocate_exception");
[[noreturn]] void throw_exception(void*, const std::type_info*, void (*)(void*)) asm("__cxa_throw");

// Ends at the boundary of an op, named(), which knows the op's name.
struct TorchError : std::runtime_error {
  TorchError(const std::string& text, bool out_of_memory) : std::runtime_error(text), out_of_memory(out_of_memory) {}
  bool out_of_memory;
};

// In our library and those it needs, or null: torch 2.10 lacks what a later one has.
template <class F>
F* torch_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

// What went wrong in this thread's latest call of torch, or null.
inline const char* torch_text() {
  static const auto get = torch_function<const char*()>("torch_exception_get_what_without_backtrace");
  return get ? get() : nullptr;
}

[[noreturn]] [[gnu::cold]] [[gnu::noinline]] inline void fail_in_torch(const char* call) {
  const char* text = torch_text();
  if (text && *text) throw TorchError(text, std::strstr(text, "out of memory") != nullptr);
  throw TorchError(std::string("torch printed why this failed: ") + call, false);
}

// Throws what Python sees as torch.OutOfMemoryError, or returns where this torch has no constructor of that name.
// Torch's constructor fills it, in more memory than it takes, and its virtual destructor empties it: no layout is
// assumed but that of the arguments, which are part of the constructor's name.
[[gnu::cold]] inline void throw_out_of_memory(const std::string& text) {
  struct SourceLocation {
    const char *function, *file;
    uint32_t line;
  };
  using Construct = void(void*, SourceLocation, std::string);
  auto construct = torch_function<Construct>(
      "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");
  if (construct == nullptr) return;
  constexpr size_t kPlenty = 1024;  // it takes 128 bytes in torch 2.10 and in 2.13
  void* error = allocate_exception(kPlenty);
  construct(error, {"", "customops", 0}, text);
  throw_exception(error, &typeid(c10::OutOfMemoryError),
                  [](void* thrown) { static_cast<std::exception*>(thrown)->~exception(); });
}

using Boxed = void(StableIValue*, uint64_t, uint64_t);

// Runs a kernel. What torch refused it is thrown on with the op's name, unless that is null: the text has one already.
inline void named(const char* op, Boxed* kernel, StableIValue* stack, uint64_t inputs, uint64_t outputs) {
  try {
    kernel(stack, inputs, outputs);
  } catch (const TorchError& error) {
    const std::string text = (op ? std::string(op) + ": " : std::string()) + error.what();
    if (error.out_of_memory) throw_out_of_memory(text);
    throw std::runtime_error(text);
  }
}

}  // namespace customops

// TORCH_BOX for an op whose name errors give: m.impl("add2", CUSTOMOPS_BOX("add2", &customops::cpu::add2)).
#define CUSTOMOPS_BOX(op, function)                                      \
  +[](StableIValue* stack, uint64_t inputs, uint64_t outputs) {          \
    ::customops::named(op, TORCH_BOX(function), stack, inputs, outputs); \
  }
