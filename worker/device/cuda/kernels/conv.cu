// Patch matrices of convolutions, and the order of their outputs.

#include "walk.cuh"

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_im2col_f32(float* __restrict__ col, const float* __restrict__ x, int batch,
                                                                  int in, int height, int width, int kernel, int stride,
                                                                  int padding, int rows, int columns) {
    long long elements = static_cast<long long>(in) * kernel * kernel * batch * rows * columns;
    for (long long i = thread_number(); i < elements; i += thread_count()) {
        int column, row, b, kx, ky;
        long long c = split(split(split(split(split(i, columns, column), rows, row), batch, b), kernel, kx), kernel, ky);
        int y = row * stride + ky - padding, at = column * stride + kx - padding;
        bool inside = y >= 0 && y < height && at >= 0 && at < width;
        col[i] = inside ? x[((b * static_cast<long long>(in) + c) * height + y) * width + at] : 0;
    }
}

// A thread collects what one input element gave: kernel element ky of output
// row r came from input row r·stride + ky - padding.
extern "C" __global__ void __launch_bounds__(1024, 1) ddp_col2im_f32(float* __restrict__ dx, const float* __restrict__ col, int batch,
                                                                  int in, int height, int width, int kernel, int stride,
                                                                  int padding, int rows, int columns) {
    long long pixels = static_cast<long long>(rows) * columns, matrix_row = batch * pixels;
    long long elements = static_cast<long long>(batch) * in * height * width;
    for (long long i = thread_number(); i < elements; i += thread_count()) {
        int at, y, c;
        long long b = split(split(split(i, width, at), height, y), in, c);
        float sum = 0;
        for (int ky = 0; ky < kernel; ky++) {
            int row = y + padding - ky;
            if (row < 0 || row % stride != 0 || (row /= stride) >= rows) continue;
            for (int kx = 0; kx < kernel; kx++) {
                int column = at + padding - kx;
                if (column < 0 || column % stride != 0 || (column /= stride) >= columns) continue;
                long long patch = (static_cast<long long>(c) * kernel + ky) * kernel + kx;
                sum += col[patch * matrix_row + b * pixels + static_cast<long long>(row) * columns + column];
            }
        }
        dx[i] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_channels_out_f32(float* __restrict__ out, const float* __restrict__ t,
                                                                        const float* __restrict__ bias, int batch, int channels,
                                                                        int pixels) {
    bool fours = pixels % 4 == 0 && head(out, t) == 0;
    walk_grid(static_cast<long long>(batch) * channels * pixels, fours ? 0 : -1, [&](auto w, long long i) {
        int p, o;
        long long b = split(split(i, pixels, p), channels, o);
        auto v = load<w.value>(t + (static_cast<long long>(o) * batch + b) * pixels + p);
        float shift = bias ? bias[o] : 0;
        if (bias) {
#pragma unroll
            for (int k = 0; k < w.value; k++) v.v[k] += shift;
        }
        store(out + i, v);
    });
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_channels_in_f32(float* __restrict__ t, const float* __restrict__ out,
                                                                       int batch, int channels, int pixels) {
    bool fours = pixels % 4 == 0 && head(t, out) == 0;
    walk_grid(static_cast<long long>(batch) * channels * pixels, fours ? 0 : -1, [&](auto w, long long i) {
        int p, b;
        long long o = split(split(i, pixels, p), batch, b);
        store(t + i, load<w.value>(out + (b * static_cast<long long>(channels) + o) * pixels + p));
    });
}
