// fwd_direct for 3x3 taps over whole small channels_last images, 16-bit, padded by one pixel. A thread has the taps of
// its channels, and reads all pixels of an image at once: each once, and none that is padding. Threads with tiles of so
// small an image compute many outputs outside of it, and read taps for few outputs each.
#pragma once

#include "read_pixels.cuh"

namespace customops::cuda::depthwise {

constexpr int kImagesBlock = 128;
constexpr int64_t kLeastImagesThreads = 1 << 12;  // with 7x7 outputs of two channels; an H100

// The width of the images, which are no higher, and the stride.
template <int in, int down>
struct ImageSizes {
  static constexpr int kIn = in, kDown = down, kOut = (in - 1) / down + 1;
};

template <class T>
struct DirectImagesParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  int in_h, out_h, channels, batch;
  Divider<uint32_t> vectors;
  bool flipped;
};

// The 3x3 taps of kLanes channels, of which W is the dtype.
template <class T, class W, int kLanes>
__device__ void load_image_taps(const W* weight, bool flipped, acc_t<T> (&taps)[9][kLanes]) {
  Access<W, kLanes> packed[9];
#pragma unroll
  for (int i = 0; i < 9; ++i) packed[i] = reinterpret_cast<const Access<W, kLanes>*>(weight)[i];
#pragma unroll
  for (int k = 0; k < 9; ++k)
#pragma unroll
    for (int v = 0; v < kLanes; ++v) {
      const int i = v * 9 + k, mirrored = v * 9 + 8 - k;
      const W straight = part<W>(packed[i / kLanes], i % kLanes),
              turned = part<W>(packed[mirrored / kLanes], mirrored % kLanes);
      taps[k][v] = widen(narrow<T>(widen(flipped ? turned : straight)));
    }
}

// Adds row i of an image to the sums of its outputs.
template <class S, int kLanes, class A>
__device__ void add_image_row(int i, const A (&taps)[9][kLanes], const A (&row)[S::kIn][kLanes],
                              A (&sum)[S::kOut][S::kOut][kLanes]) {
#pragma unroll
  for (int ky = 0; ky < 3; ++ky)
    if (const int y = i + 1 - ky; y >= 0 && y % S::kDown == 0 && y / S::kDown < S::kOut)
#pragma unroll
      for (int x = 0; x < S::kOut; ++x)
#pragma unroll
        for (int kx = 0; kx < 3; ++kx)
          if (const int j = x * S::kDown + kx - 1; j >= 0 && j < S::kIn)
#pragma unroll
            for (int v = 0; v < kLanes; ++v) sum[y / S::kDown][x][v] += taps[ky * 3 + kx][v] * row[j][v];
}

template <class T, class S, int kLanes>  // S: the ImageSizes
__global__ void __launch_bounds__(kImagesBlock) direct_images(const __grid_constant__ DirectImagesParams<T> params) {
  using A = acc_t<T>;
  using Pixel = Access<T, kLanes>;
  constexpr int kIn = S::kIn, kOut = S::kOut;
  uint32_t image = blockIdx.x * kImagesBlock + threadIdx.x;
  const int channel = int(params.vectors.divmod(image)) * kLanes;
  if (int(image) >= params.batch) return;
  const T* from = params.in + int64_t(image) * params.in_h * kIn * params.channels + channel;
  Pixel pixels[kIn][kIn];
#pragma unroll
  for (int y = 0; y < kIn; ++y)
    if (y < params.in_h)
#pragma unroll
      for (int x = 0; x < kIn; ++x, from += params.channels) pixels[y][x] = *reinterpret_cast<const Pixel*>(from);
  A taps[9][kLanes], sum[kOut][kOut][kLanes];
  if (params.weight.float32)
    load_image_taps<T, float, kLanes>(static_cast<const float*>(params.weight.data) + channel * 9, params.flipped,
                                      taps);
  else
    load_image_taps<T, T, kLanes>(static_cast<const T*>(params.weight.data) + channel * 9, params.flipped, taps);
#pragma unroll
  for (int v = 0; v < kLanes; ++v) {
    const A bias = params.bias ? params.bias[channel + v] : A(0);
#pragma unroll
    for (int y = 0; y < kOut; ++y)
#pragma unroll
      for (int x = 0; x < kOut; ++x) sum[y][x][v] = bias;
  }
  T* to = params.out + int64_t(image) * params.out_h * kOut * params.channels + channel;
#pragma unroll
  for (int i = 0; i <= kIn; ++i) {
    if (i < kIn && i < params.in_h) {
      A row[kIn][kLanes];
      widen_pixels<T>(pixels[i < kIn ? i : 0], row);
      add_image_row<S>(i, taps, row, sum);
    }
    // A row of outputs is complete once the last row of pixels under it, which may be behind the image, is added.
    if (i == 0 || (i - 1) % S::kDown != 0 || (i - 1) / S::kDown >= params.out_h) continue;
#pragma unroll
    for (int x = 0; x < kOut; ++x, to += params.channels) {
      Vector<T, kLanes> value;
#pragma unroll
      for (int v = 0; v < kLanes; ++v) value.at[v] = narrow<T>(sum[(i - 1) / S::kDown][x][v]);
      *reinterpret_cast<Vector<T, kLanes>*>(to) = value;
    }
  }
}

// f(ImageSizes) for the sizes that the kernel is compiled for, otherwise nothing.
template <class F>
void visit_image_sizes(const Problem& problem, const F& f) {
  const auto visit = [&](auto sizes) {
    using S = decltype(sizes);
    if (problem.x.in == S::kIn && problem.x.out == S::kOut && is_step(problem, 1, S::kDown)) f(sizes);
  };
  visit(ImageSizes<5, 1>()), visit(ImageSizes<6, 1>()), visit(ImageSizes<7, 1>());
  visit(ImageSizes<5, 2>()), visit(ImageSizes<6, 2>()), visit(ImageSizes<7, 2>());
}

inline int direct_images_lanes(const Problem& problem) { return has_channel_vectors(problem, 2) ? 2 : 1; }

// Whether direct_images computes what fwd_direct takes. Where few threads have the most outputs, tiles are faster.
inline bool is_for_direct_images(const Problem& problem) {
  const int64_t lanes = direct_images_lanes(problem);
  if (!is_16_bit(problem.dtype) || problem.x.taps != 3 || problem.y.dilation != 1 || problem.x.dilation != 1 ||
      problem.y.pad != 1 || problem.x.pad != 1 || problem.y.in > problem.x.in || problem.y.out > problem.x.out ||
      (problem.x.out == 7 && lanes == 2 && problem.batch * problem.channels / lanes < kLeastImagesThreads))
    return false;
  bool compiled = false;
  visit_image_sizes(problem, [&](auto) { compiled = true; });
  return compiled;
}

template <class T, int kLanes>
void launch_direct_images(const ForwardProblem& problem, const void* weight, cudaStream_t stream) {
  const int64_t vectors = problem.channels / kLanes;
  DirectImagesParams<T> params{};
  params.weight = {weight, problem.float32_weight}, params.bias = bias_of<T>(problem);
  params.in = static_cast<const T*>(problem.in), params.out = static_cast<T*>(problem.out);
  params.in_h = int(problem.y.in), params.out_h = int(problem.y.out), params.channels = int(problem.channels);
  params.batch = int(problem.batch), params.flipped = problem.flipped;
  params.vectors = Divider<uint32_t>(vectors);
  const unsigned grid = blocks(problem.batch * vectors, kImagesBlock);
  visit_image_sizes(problem, [&](auto sizes) {
    direct_images<T, decltype(sizes), kLanes><<<grid, kImagesBlock, 0, stream>>>(params);
  });
}

// Of fwd_direct's problems, those that is_for_direct_images names.
template <class T>
void launch_direct_images(const ForwardProblem& problem, cudaStream_t stream) {
  const int lanes = direct_images_lanes(problem);
  const OwnWeight weight = aligned_weight(problem, lanes * problem.weight_element_bytes(), stream);
  lanes == 2 ? launch_direct_images<T, 2>(problem, weight.data, stream)
             : launch_direct_images<T, 1>(problem, weight.data, stream);
}

}  // namespace customops::cuda::depthwise
