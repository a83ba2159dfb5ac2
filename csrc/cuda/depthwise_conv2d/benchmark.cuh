// The benchmark mode: with CUSTOMOPS_BENCHMARK=1 in the environment, every kernel that can compute a problem is timed
// when a process first meets it, and the fastest computes it from then on. What choose.h says is the first candidate.
//
// As in torch's benchmark mode of cuDNN, two processes may choose two kernels, whose results differ in the last bits;
// within one process they stay the same. While a CUDA graph is captured nothing is timed.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <vector>

#include "known_choices.cuh"

namespace customops::cuda::depthwise {

inline bool benchmark_enabled() {
  static const bool enabled = [] {
    const char* value = std::getenv("CUSTOMOPS_BENCHMARK");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  return enabled;
}

// Kernels with a thread for each output or tap, where that thread has so much to do that they are never the fastest.
inline bool is_hopeless(Kernel kernel, const Problem& problem) {
  if (kernel == Kernel::kFwdSimple) return double(outputs(problem)) * double(problem.taps()) > 1e9;
  return kernel == Kernel::kWgradCorrelation && 64 * problem.taps() < problem.y.out * problem.x.out;
}

// `chosen`, and all others that can compute the problem.
inline std::vector<Choice> candidates(const Problem& problem, bool wgrad, const Gpu& gpu, const Choice& chosen) {
  std::vector<Choice> all{chosen};
  for (int i = 0; i < kKernels; ++i)
    for (const bool copies : {false, true}) {
      const auto kernel = Kernel(i);
      if (is_wgrad(kernel) != wgrad || (copies && (!may_copy_to_planes(kernel) || !problem.channels_last)) ||
          is_hopeless(kernel, problem) || (kernel == chosen.kernel && copies == chosen.copies_to_planes))
        continue;
      if (takes(kernel, copies ? as_planes(problem) : problem, gpu))
        all.push_back({kernel, copies, "the fastest in benchmark mode"});
    }
  return all;
}

// Keeps a stream busy, so that what is launched meanwhile queues up and runs without the host's pauses.
inline __global__ void hold_stream(int64_t cycles) {
  for (const int64_t start = clock64(); clock64() - start < cycles;) {
  }
}

class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) { cudaEventCreate(&start_), cudaEventCreate(&end_); }
  ~Stopwatch() { cudaEventDestroy(start_), cudaEventDestroy(end_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // Microseconds of one of so many calls.
  template <class F>
  double time(int calls, const F& call) const {
    constexpr int64_t kCyclesACall = 100'000;  // 50 us; a launch of cuDNN through torch took a host 14
    hold_stream<<<1, 1, 0, stream_>>>(calls * kCyclesACall);
    cudaEventRecord(start_, stream_);
    for (int i = 0; i < calls; ++i) call();
    cudaEventRecord(end_, stream_);
    cudaEventSynchronize(end_);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, start_, end_);
    return milliseconds * 1e3 / calls;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t start_{}, end_{};
};

// The least of three times per call; infinity for what fails (too little memory for a copy, say) or is far slower than
// `least`.
template <class F>
double time_candidate(const Stopwatch& watch, double least, const F& call) {
  constexpr double kNever = std::numeric_limits<double>::infinity(), kEnoughUs = 1000;
  try {
    call();  // loads its machine code
    const double once = watch.time(1, call);
    if (once > 3 * least + 20) return kNever;
    const int calls = std::clamp(int(kEnoughUs / once), 2, 12);
    double time = watch.time(calls, call);
    for (int round = 0; round < 2; ++round) time = std::min(time, watch.time(calls, call));
    return time;
  } catch (const std::exception&) {
    cudaGetLastError();
    return kNever;
  }
}

// run(choice) computes the problem. Every process asks for each problem once; a thread that comes second takes what the
// first has found.
template <class Run>
Choice fastest(const Problem& problem, bool wgrad, const Choice& chosen, const Gpu& gpu, cudaStream_t stream,
               const Run& run) {
  static std::mutex mutex;
  static std::map<ProblemKey, Choice> known;
  const ProblemKey key = key_of(problem, wgrad);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &capture);
  if (capture != cudaStreamCaptureStatusNone) return chosen;
  const Stopwatch watch(stream);
  constexpr double kGain = 0.98;  // of the time so far: less is noise
  Choice best = chosen;
  double least = std::numeric_limits<double>::infinity();
  for (const Choice& candidate : candidates(problem, wgrad, gpu, chosen))
    if (const double time = time_candidate(watch, least, [&] { run(candidate); }); time < kGain * least)
      least = time, best = candidate;
  const std::lock_guard lock(mutex);
  return known.emplace(key, best).first->second;
}

}  // namespace customops::cuda::depthwise
