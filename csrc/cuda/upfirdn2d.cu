// upfirdn2d: zero-stuffed, padded, filtered, downsampled images, in one pass. Reads x once, but for the edges of tiles,
// and writes y once; bound by memory for 4x4 taps, if a thread spends few instructions beside its multiply-adds.
#include <torch/csrc/stable/library.h>

#include <optional>

#include "upfirdn2d.cuh"

namespace customops::cuda {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 4;  // so that sums of a few don't overflow

bool small(const Axis& a) {
  return std::max({a.in * a.up, a.out * a.down, a.taps, a.up, a.down, std::abs(a.pad)}) < kMost;
}

template <class T>
T* pointer(const Tensor& t) {
  return static_cast<T*>(t.data_ptr());
}

template <class T, class C>
bool launch_common(const Upfirdn2d& p, cudaStream_t stream) {
  ImagesOf<T> images{};
  images.in = pointer<T>(p.in);
  images.out = pointer<T>(p.out);
  images.in_w = int(p.x.in), images.in_h = int(p.y.in), images.out_w = int(p.x.out), images.out_h = int(p.y.out);
  images.channels = int(p.channels);
  images.shift_x = int(p.x.pad / C::kUp), images.shift_y = int(p.y.pad / C::kUp);
  images.filter = p.filter;
  images.gain = acc_t<T>(p.gain);
  if (p.channels_last) {
    using S = Patch<T, C>;
    using V = Vector<T, S::kVector>;
    const int64_t vectors = p.channels / S::kVector, x = blocks(p.x.out, S::kX), y = blocks(p.y.out, S::kY);
    const bool whole = p.channels % S::kVector == 0 && reinterpret_cast<uintptr_t>(images.in) % sizeof(V) == 0 &&
                       reinterpret_cast<uintptr_t>(images.out) % sizeof(V) == 0;
    if (!whole || p.channels >= kMost || p.batch > kMost / (vectors * x * y)) return false;
    images.vectors = Divider<uint32_t>(vectors);
    images.tiles_x = Divider<uint32_t>(x);
    images.tiles_y = Divider<uint32_t>(y);
    images.threads = uint32_t(p.batch * vectors * x * y);
    pixels<T, C><<<blocks(images.threads, kThreads), kThreads, 0, stream>>>(images);
  } else {
    using S = Tile<T, C>;
    const int64_t planes = p.batch * p.channels, x = blocks(p.x.out, S::kOutW), y = blocks(p.y.out, S::kOutH);
    if (planes > kMost / (x * y)) return false;
    images.whole = p.x.out % S::kX == 0 && aligned(images.out);
    images.tiles_x = Divider<uint32_t>(x);
    images.tiles_y = Divider<uint32_t>(y);
    tiled<T, C><<<unsigned(planes * x * y), S::kThreads, 0, stream>>>(images);
  }
  return true;
}

// False where no kernel is made for these factors and taps, nor for float64: it is there to check, not to be fast.
template <class T>
bool launch_common(const Upfirdn2d& p, cudaStream_t stream) {
  const Axis &x = p.x, &y = p.y;
  const bool alike = x.up == y.up && x.down == y.down && x.taps == y.taps;
  if (!alike || !small(x) || !small(y) || x.pad % x.up != 0 || y.pad % y.up != 0) return false;
  const auto is = [&](int up, int down, int taps, bool separable) {
    return x.up == up && x.down == down && x.taps == taps && p.filter.separable == separable;
  };
  if (is(1, 1, 4, false)) return launch_common<T, Common<1, 1, 4, false>>(p, stream);
  if (is(2, 1, 4, false)) return launch_common<T, Common<2, 1, 4, false>>(p, stream);
  if (is(1, 2, 4, false)) return launch_common<T, Common<1, 2, 4, false>>(p, stream);
  if (is(1, 1, 12, true)) return launch_common<T, Common<1, 1, 12, true>>(p, stream);
  if (is(2, 1, 12, true)) return launch_common<T, Common<2, 1, 12, true>>(p, stream);
  if (is(1, 2, 12, true)) return launch_common<T, Common<1, 2, 12, true>>(p, stream);
  return false;
}

template <class Index, class T>
void launch_general(const Upfirdn2d& p, cudaStream_t stream) {
  using Int = std::make_signed_t<Index>;
  const int64_t n = p.out.numel();
  general<Index, T><<<blocks(n, kThreads), kThreads, 0, stream>>>(
      pointer<T>(p.in), pointer<T>(p.out), Index(n), Steps<Int>(p.x), Steps<Int>(p.y),
      Divider<Index>(p.channels_last ? p.channels : 1), Divider<Index>(p.x.out), Divider<Index>(p.y.out), p.filter,
      acc_t<T>(p.gain));
}

}  // namespace

Tensor upfirdn2d(const Tensor& x, const std::optional<Tensor>& f, int64_t up_x, int64_t up_y, int64_t down_x,
                 int64_t down_y, int64_t pad_x0, int64_t pad_x1, int64_t pad_y0, int64_t pad_y1, bool flip_filter,
                 double gain) {
  Upfirdn2d p = prepare_upfirdn2d(x, f, up_x, up_y, down_x, down_y, pad_x0, pad_x1, pad_y0, pad_y1, flip_filter, gain);
  if (p.out.numel() == 0) return p.out;
  launch("upfirdn2d", p.out, [&](cudaStream_t stream) {
    dispatch(x.scalar_type(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (sizeof(T) < sizeof(double))
        if (launch_common<T>(p, stream)) return;
      if (p.out.numel() < kMost && small(p.x) && small(p.y))
        launch_general<uint32_t, T>(p, stream);
      else
        launch_general<uint64_t, T>(p, stream);
    });
  });
  return p.out;
}

}  // namespace customops::cuda

STABLE_TORCH_LIBRARY_IMPL(customops, CUDA, m) {
  m.impl("upfirdn2d", TORCH_BOX(&customops::cuda::upfirdn2d));
  m.impl("_upfirdn2d", TORCH_BOX(&customops::cuda::upfirdn2d));
}
