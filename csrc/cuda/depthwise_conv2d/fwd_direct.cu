// depthwise_conv2d, forward and dgrad, for channels_last images, read straight from memory. It computes 3x3 taps at
// stride 2, where a pixel is used by so few outputs that shared memory costs more than it saves, and 3x3 and 5x5 taps
// where fwd_pixels does not apply: the channels are not a multiple of a thread's channels there, or the image is not
// aligned. Neighbouring threads take neighbouring channels. Each keeps its taps in registers, walks down the rows of
// its window, and reads some rows ahead; the caches hold what windows share. Small 16-bit images are computed whole
// (direct_images.cuh).
#include "direct_images.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 128, kBlocksAtOnce = 4;  // threads; blocks that a multiprocessor has registers for

// A thread's x by y outputs, and the rows that it reads ahead: the fastest on an H200 of those that need no local
// memory.
struct Sizes {
  int x, y, ahead;
};
constexpr Sizes sizes(int up, int down, int taps, int lanes, bool half, bool few) {
  const bool four = lanes == 4;
  if (few && taps == 3) return down == 2 ? Sizes{1, 1, 2} : Sizes{2, 2, 3};
  if (few) return {2, 2, half && down == 1 ? 1 : 5};
  if (taps == 5) return {4, up * down == 2 ? 4 : 7, 1};
  if (up == 2) return four ? Sizes{4, half ? 4 : 2, 1} : Sizes{2, 4, 2};
  if (down == 2) return half && !four ? Sizes{2, 7, 1} : Sizes{half ? 2 : 1, 4, 2};
  return half && lanes == 2 ? Sizes{4, 4, 1} : Sizes{2, 7, 2};
}
// few: for so few outputs that threads with more of them would not fill a GPU.
template <class T, class R, int lanes, bool few>
struct Region {
  static constexpr Sizes kSizes = sizes(R::kUp, R::kDown, R::kTaps, lanes, sizeof(T) == 2, few);
  static constexpr int kX = kSizes.x, kY = kSizes.y, kAhead = kSizes.ahead;
};

// Below so many threads each has few outputs, where that gained anything on an H200: wheels grow by it.
template <class T, class R>
constexpr int64_t few_threads() {
  if (R::kUp == 2) return R::kTaps == 3 && sizeof(T) == 2 ? 1 << 13 : 0;
  if (R::kTaps == 5) return 1 << 14;
  return R::kDown == 2 && sizeof(T) == 4 ? 1 << 12 : 1 << 15;
}

template <class T>
struct FwdDirectParams {
  const T* weight;
  Parameters<T> bias;
  const T* in;
  T* out;
  int in_w, in_h, out_w, out_h, channels, left, top, batch;  // left, top: pixels before the first
  Divider<uint32_t> vectors, tiles_x, tiles_y;
  int dilation_x, dilation_y;
  Divider<uint32_t> phases_x, phases_y;  // of the dilation
};

template <class T, class R, int kLanes, bool kFlipped, bool kDilated, bool kFew>
__global__ void __launch_bounds__(kBlock, kBlocksAtOnce) fwd_direct(const __grid_constant__ FwdDirectParams<T> params) {
  using S = Region<T, R, kLanes, kFew>;
  using A = acc_t<T>;
  constexpr int kTaps = R::kTaps * R::kTaps, kColumns = R::span(S::kX), kRows = R::span(S::kY);
  uint32_t rest = blockIdx.x * kBlock + threadIdx.x;
  const int channel = int(params.vectors.divmod(rest)) * kLanes, ox = int(params.tiles_x.divmod(rest)) * S::kX;
  const int oy = int(params.tiles_y.divmod(rest)) * S::kY;
  Interleaved view_x, view_y;
  if constexpr (kDilated) {
    view_x = Interleaved(params.in_w, params.out_w, params.left, params.dilation_x, int(params.phases_x.divmod(rest)));
    view_y = Interleaved(params.in_h, params.out_h, params.top, params.dilation_y, int(params.phases_y.divmod(rest)));
  }
  // Of the whole image, or of the pixels a dilation apart. Written so that without dilation nothing is computed.
  const auto either = [](int whole, int interleaved) { return kDilated ? interleaved : whole; };
  const int64_t image = rest;
  if (image >= params.batch) return;
  Access<T, kLanes> packed[kTaps];
#pragma unroll
  for (int i = 0; i < kTaps; ++i)
    packed[i] = reinterpret_cast<const Access<T, kLanes>*>(params.weight + channel * kTaps)[i];
  A taps[kTaps][kLanes], sum[S::kY][S::kX][kLanes];
#pragma unroll
  for (int k = 0; k < kTaps; ++k)
#pragma unroll
    for (int v = 0; v < kLanes; ++v) {
      const int i = v * kTaps + (kFlipped ? kTaps - 1 - k : k);
      taps[k][v] = widen(part<T>(packed[i / kLanes], i % kLanes));
      asm("" : "+f"(taps[k][v]));  // or the compiler keeps 16-bit taps as they are, and widens them at every use
    }
#pragma unroll
  for (int v = 0; v < kLanes; ++v) {
    const A bias = params.bias ? params.bias[channel + v] : A(0);
#pragma unroll
    for (int y = 0; y < S::kY; ++y)
#pragma unroll
      for (int x = 0; x < S::kX; ++x) sum[y][x][v] = bias;
  }
  const int y0 = oy / R::kUp * R::kDown - either(params.top, view_y.before),
            x0 = ox / R::kUp * R::kDown - either(params.left, view_x.before), row_step = params.in_w * params.channels;
  const T* in = params.in + image * params.in_h * row_step + channel;
  T* out = params.out + ((image * params.out_h + oy) * params.out_w + ox) * params.channels + channel;
  if constexpr (kDilated) {
    in += view_y.first * row_step + view_x.first * params.channels;
    out +=
        ((view_y.phase + oy * (params.dilation_y - 1)) * params.out_w + view_x.phase + ox * (params.dilation_x - 1)) *
        params.channels;
  }
  auto* const bytes = reinterpret_cast<char*>(out);  // as in read_pixels
  Access<T, kLanes> rows[S::kAhead + 1][kColumns];
  // Not a function that takes a lambda: nvcc 12.4 made code of that which took up to 1.25 times as long.
#pragma unroll
  for (int coming = 0; coming < kRows + S::kAhead; ++coming) {
    if (coming < kRows)
      read_pixels(rows[coming % (S::kAhead + 1)], in, y0 + coming, x0, either(params.in_h, view_y.in),
                  either(params.in_w, view_x.in), either(params.channels, params.channels * params.dilation_x),
                  either(row_step, row_step * params.dilation_y));
    const int i = coming - S::kAhead;
    if (i < 0) continue;
    A row[kColumns][kLanes];
    widen_pixels<T>(rows[i % (S::kAhead + 1)], row);
    add_row<R>(i, taps, row, 0, sum);
#pragma unroll
    for (int y = 0; y < S::kY; ++y) {
      const bool complete = R::tap(i, y) >= 0 && (i + 1 == kRows || R::tap(i + 1, y) < 0);
      if (!complete || oy + y >= either(params.out_h, view_y.out)) continue;
#pragma unroll
      for (int x = 0; x < S::kX; ++x) {
        Vector<T, kLanes> value;
#pragma unroll
        for (int v = 0; v < kLanes; ++v) value.at[v] = narrow<T>(sum[y][x][v]);
        const unsigned pixel = either(y, y * params.dilation_y) * params.out_w + either(x, x * params.dilation_x);
        if (ox + x < either(params.out_w, view_x.out))
          *reinterpret_cast<Vector<T, kLanes>*>(bytes + pixel * params.channels * unsigned(sizeof(T))) = value;
      }
    }
  }
}

template <class T>
__global__ void round_weight(const float* from, T* to, int64_t elements) {
  const int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x;
  if (i < elements) to[i] = narrow<T>(from[i]);
}

// The memory of the weight, or of a copy: in the images' dtype, and aligned to accesses of so many bytes. Kernels that
// are compiled for float32 weights, too, filled a third of this file's machine code, and a branch in them cost all
// calls some 5 % on an H200.
template <class T>
OwnWeight rounded_weight(const ForwardProblem& problem, int64_t bytes, cudaStream_t stream) {
  if constexpr (sizeof(T) == 2)
    if (problem.float32_weight) {
      const int64_t elements = problem.channels * problem.taps();
      OwnWeight weight = copied_weight(elements * sizeof(T));
      round_weight<<<blocks(elements, kBlock), kBlock, 0, stream>>>(static_cast<const float*>(problem.weight),
                                                                    static_cast<T*>(weight.copy.data()), elements);
      return weight;
    }
  return aligned_weight(problem, bytes, stream);
}

template <class T, class R, int kLanes, bool kFlipped, bool kDilated = false, bool kFew = false>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  using S = Region<T, R, kLanes, kFew>;
  const int64_t phases_x = kDilated ? problem.x.dilation : 1, phases_y = kDilated ? problem.y.dilation : 1;
  const int64_t vectors = problem.channels / kLanes, tiles_x = ceil_div(ceil_div(problem.x.out, phases_x), S::kX),
                tiles_y = ceil_div(ceil_div(problem.y.out, phases_y), S::kY);
  const int64_t threads = problem.batch * vectors * tiles_x * tiles_y * phases_x * phases_y;
  if constexpr (!kFew && !kDilated && few_threads<T, R>() > 0)
    if (threads < few_threads<T, R>()) return launch<T, R, kLanes, kFlipped, kDilated, true>(problem, stream);
  const OwnWeight weight = rounded_weight<T>(problem, sizeof(Access<T, kLanes>), stream);
  FwdDirectParams<T> params{};
  params.weight = static_cast<const T*>(weight.data), params.bias = bias_of<T>(problem);
  params.in = static_cast<const T*>(problem.in), params.out = static_cast<T*>(problem.out);
  params.in_w = int(problem.x.in), params.in_h = int(problem.y.in), params.out_w = int(problem.x.out),
  params.out_h = int(problem.y.out);
  params.channels = int(problem.channels), params.batch = int(problem.batch);
  params.left = int((problem.x.pad - R::kPhase) / R::kUp), params.top = int((problem.y.pad - R::kPhase) / R::kUp);
  params.vectors = Divider<uint32_t>(vectors), params.tiles_x = Divider<uint32_t>(tiles_x);
  params.tiles_y = Divider<uint32_t>(tiles_y);
  params.dilation_x = int(phases_x), params.dilation_y = int(phases_y);
  params.phases_x = Divider<uint32_t>(phases_x), params.phases_y = Divider<uint32_t>(phases_y);
  fwd_direct<T, R, kLanes, kFlipped, kDilated, kFew><<<blocks(threads, kBlock), kBlock, 0, stream>>>(params);
}

template <class T, int taps, int kLanes>
void launch_lanes(const ForwardProblem& problem, cudaStream_t stream) {
  if (is_step(problem, 1, 2)) return launch<T, TapWindow<1, 2, taps>, kLanes, false>(problem, stream);
  if (is_step(problem, 2, 1)) return launch<T, TapWindow<2, 1, taps>, kLanes, true>(problem, stream);
  using R = TapWindow<1, 1, taps>;
  if constexpr (kLanes < channel_lanes(taps))
    return problem.flipped ? launch<T, R, kLanes, true>(problem, stream) : launch<T, R, kLanes, false>(problem, stream);
  fail_choice(Kernel::kFwdDirect);
}

template <class T>
void launch_tiles(const ForwardProblem& problem, cudaStream_t stream) {
  if constexpr (sizeof(T) == 2)
    if (fwd_direct_takes_dilation(problem) && !(is_dense(problem.y) && is_dense(problem.x)))
      return problem.flipped ? launch<T, TapWindow<1, 1, 3>, 2, true, true>(problem, stream)
                             : launch<T, TapWindow<1, 1, 3>, 2, false, true>(problem, stream);
  const int lanes = fwd_direct_lanes(problem);
  if (problem.x.taps == 5) return launch_lanes<T, 5, 1>(problem, stream);
  if (lanes == 4) return launch_lanes<T, 3, 4>(problem, stream);
  if (lanes == 2) return launch_lanes<T, 3, 2>(problem, stream);
  launch_lanes<T, 3, 1>(problem, stream);
}

}  // namespace

void launch_fwd_direct(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kFwdDirect, problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == 2)
      if (is_for_direct_images(problem)) return launch_direct_images<T>(problem, stream);
    launch_tiles<T>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
