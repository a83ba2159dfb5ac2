// upfirdn2d: zero-stuffed, padded, filtered, downsampled images, in one pass. Reads x once, but for the edges of tiles,
// and writes y once; bound by memory for 4x4 taps, if a thread has few instructions besides its multiply-adds.
#include <optional>

#include "upfirdn2d.cuh"

namespace customops::cuda {
namespace {

constexpr int64_t kMaxIndex = std::numeric_limits<int32_t>::max() / 4;  // so that sums of a few don't overflow

bool fits_int32(const Axis& a) {
  return std::max({a.in * a.up, a.out * a.down, a.taps, a.up, a.down, std::abs(a.pad)}) < kMaxIndex;
}

template <class T>
T* pointer(const Tensor& t) {
  return static_cast<T*>(t.data_ptr());
}

template <class T, class C>
bool launch_common(const Upfirdn2d& problem, cudaStream_t stream) {
  TileParams<T> params{};
  params.in = pointer<T>(problem.in);
  params.out = pointer<T>(problem.out);
  params.in_w = int(problem.x.in), params.in_h = int(problem.y.in), params.out_w = int(problem.x.out),
  params.out_h = int(problem.y.out);
  params.channels = int(problem.channels);
  params.shift_x = int(problem.x.pad / C::kUp), params.shift_y = int(problem.y.pad / C::kUp);
  params.filter = problem.filter;
  params.gain = acc_t<T>(problem.gain);
  if (problem.channels_last) {
    using S = Patch<T, C>;
    using V = Vector<T, S::kVector>;
    const int64_t vectors = problem.channels / S::kVector, x = blocks(problem.x.out, S::kX),
                  y = blocks(problem.y.out, S::kY);
    const bool whole = problem.channels % S::kVector == 0 && reinterpret_cast<uintptr_t>(params.in) % sizeof(V) == 0 &&
                       reinterpret_cast<uintptr_t>(params.out) % sizeof(V) == 0;
    if (!whole || problem.channels >= kMaxIndex || problem.batch > kMaxIndex / (vectors * x * y)) return false;
    params.vectors = Divider<uint32_t>(vectors);
    params.tiles_x = Divider<uint32_t>(x);
    params.tiles_y = Divider<uint32_t>(y);
    params.threads = uint32_t(problem.batch * vectors * x * y);
    pixels<T, C><<<blocks(params.threads, kThreads), kThreads, 0, stream>>>(params);
  } else {
    using S = Tile<T, C>;
    const int64_t planes = problem.batch * problem.channels, x = blocks(problem.x.out, S::kOutW),
                  y = blocks(problem.y.out, S::kOutH);
    if (planes > kMaxIndex / (x * y)) return false;
    params.whole = problem.x.out % S::kX == 0 && aligned(params.out);
    params.tiles_x = Divider<uint32_t>(x);
    params.tiles_y = Divider<uint32_t>(y);
    tiled<T, C><<<unsigned(planes * x * y), S::kThreads, 0, stream>>>(params);
  }
  return true;
}

// Returns false where no kernel is compiled for these factors and taps, or for float64, which need not be fast.
template <class T>
bool launch_common(const Upfirdn2d& problem, cudaStream_t stream) {
  const Axis &x = problem.x, &y = problem.y;
  const bool alike = x.up == y.up && x.down == y.down && x.taps == y.taps;
  if (!alike || !fits_int32(x) || !fits_int32(y) || x.pad % x.up != 0 || y.pad % y.up != 0) return false;
  const auto is = [&](int up, int down, int taps, bool separable) {
    return x.up == up && x.down == down && x.taps == taps && problem.filter.separable == separable;
  };
  if (is(1, 1, 4, false)) return launch_common<T, Common<1, 1, 4, false>>(problem, stream);
  if (is(2, 1, 4, false)) return launch_common<T, Common<2, 1, 4, false>>(problem, stream);
  if (is(1, 2, 4, false)) return launch_common<T, Common<1, 2, 4, false>>(problem, stream);
  if (is(1, 1, 12, true)) return launch_common<T, Common<1, 1, 12, true>>(problem, stream);
  if (is(2, 1, 12, true)) return launch_common<T, Common<2, 1, 12, true>>(problem, stream);
  if (is(1, 2, 12, true)) return launch_common<T, Common<1, 2, 12, true>>(problem, stream);
  return false;
}

template <class Index, class T>
void launch_general(const Upfirdn2d& problem, cudaStream_t stream) {
  using Int = std::make_signed_t<Index>;
  const int64_t n = problem.out.numel();
  general<Index, T><<<blocks(n, kThreads), kThreads, 0, stream>>>(
      pointer<T>(problem.in), pointer<T>(problem.out), Index(n), Steps<Int>(problem.x), Steps<Int>(problem.y),
      Divider<Index>(problem.channels_last ? problem.channels : 1), Divider<Index>(problem.x.out),
      Divider<Index>(problem.y.out), problem.filter, acc_t<T>(problem.gain));
}

}  // namespace

Tensor upfirdn2d(const Tensor& x, const std::optional<Tensor>& f, int64_t up_x, int64_t up_y, int64_t down_x,
                 int64_t down_y, int64_t pad_x0, int64_t pad_x1, int64_t pad_y0, int64_t pad_y1, bool flip_filter,
                 double gain) {
  Upfirdn2d problem =
      prepare_upfirdn2d(x, f, up_x, up_y, down_x, down_y, pad_x0, pad_x1, pad_y0, pad_y1, flip_filter, gain);
  if (problem.out.numel() == 0) return problem.out;
  launch("upfirdn2d", problem.out, [&](cudaStream_t stream) {
    dispatch(x.scalar_type(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (sizeof(T) < sizeof(double))
        if (launch_common<T>(problem, stream)) return;
      if (problem.out.numel() < kMaxIndex && fits_int32(problem.x) && fits_int32(problem.y))
        launch_general<uint32_t, T>(problem, stream);
      else
        launch_general<uint64_t, T>(problem, stream);
    });
  });
  return problem.out;
}

}  // namespace customops::cuda

STABLE_TORCH_LIBRARY_IMPL(customops, CUDA, m) {
  m.impl("upfirdn2d", CUSTOMOPS_BOX("upfirdn2d", &customops::cuda::upfirdn2d));
  m.impl("_upfirdn2d", CUSTOMOPS_BOX("upfirdn2d", &customops::cuda::upfirdn2d));
}
