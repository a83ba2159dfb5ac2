// What fwd_dense_rows and fwd_mma_lines share: contiguous rows of samples under kernels one tap high.
#pragma once

#include "problem.cuh"

namespace customops::cuda::depthwise {

template <class T>
struct RowsParams {
  Parameters<T> weight, bias;
  const T *in, *in_end;
  T* out;
  int in_w, out_w, in_h, top, down, taps, pad;
  bool flipped;
  Divider<uint32_t> out_h, channels;
};

template <class T, class Params>
void set_rows(const ForwardProblem& problem, Params& params) {
  params.weight = weight_of<T>(problem), params.bias = bias_of<T>(problem);
  params.in = static_cast<const T*>(problem.in), params.out = static_cast<T*>(problem.out);
  params.in_end = params.in + problem.batch * problem.channels * problem.y.in * problem.x.in;
  params.in_w = int(problem.x.in), params.out_w = int(problem.x.out), params.in_h = int(problem.y.in);
  params.top = int(problem.y.pad), params.down = int(problem.y.down);
  params.taps = int(problem.x.taps), params.pad = int(problem.x.pad), params.flipped = problem.flipped;
  params.out_h = Divider<uint32_t>(problem.y.out), params.channels = Divider<uint32_t>(problem.channels);
}

// A row of outputs, counted over all images, and the row of samples under it.
template <class T>
struct Row {
  T* out;
  const T* in;
  int size, channel;  // size: samples; 0 where the row is outside of the image

  __device__ Row(const RowsParams<T>& params, uint32_t row) : out(params.out + int64_t(row) * params.out_w) {
    const int y = int(params.out_h.divmod(row)) * params.down - params.top;
    size = unsigned(y) < unsigned(params.in_h) ? params.in_w : 0;
    in = params.in + (int64_t(row) * params.in_h + y) * params.in_w;
    channel = int(params.channels.divmod(row));
  }
};

}  // namespace customops::cuda::depthwise
