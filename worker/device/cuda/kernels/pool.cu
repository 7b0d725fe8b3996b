// Pooling of [planes height width]; windows never reach over the edge.

#include "fault.cuh"
#include "walk.cuh"

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_maxpool_f32(float* __restrict__ out, int* __restrict__ index,
                                                                   const float* __restrict__ x, int planes, int height, int width,
                                                                   int rows, int columns, int kernel, int stride) {
    long long elements = static_cast<long long>(planes) * rows * columns;
    for (long long i = thread_number(); i < elements; i += thread_count()) {
        int row, column;
        long long plane = split(split(i, columns, column), rows, row);
        const float* from = x + plane * height * width;
        int first = row * stride * width + column * stride, best = first;
        float top = from[best];
        for (int ky = 0; ky < kernel; ky++) {
            for (int at = first + ky * width; at < first + ky * width + kernel; at++) {
                float v = from[at];
                if (v > top || v != v) top = v, best = at;
            }
        }
        out[i] = top;
        if (index) index[i] = best;
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_avgpool_f32(float* __restrict__ out, const float* __restrict__ x, int planes,
                                                                   int height, int width, int rows, int columns, int kernel,
                                                                   int stride) {
    long long elements = static_cast<long long>(planes) * rows * columns;
    for (long long i = thread_number(); i < elements; i += thread_count()) {
        int row, column;
        long long plane = split(split(i, columns, column), rows, row);
        const float* from = x + plane * height * width + row * stride * static_cast<long long>(width) + column * stride;
        float sum = 0;
        for (int ky = 0; ky < kernel; ky++) {
            float line = 0; // of global pooling, windows are whole planes
            for (int kx = 0; kx < kernel; kx++) line += from[static_cast<long long>(ky) * width + kx];
            sum += line;
        }
        out[i] = sum / (static_cast<float>(kernel) * kernel);
    }
}

// Cover is the windows, along one axis, that reach over a place: first..last,
// none if last < first.
struct Cover {
    int first, last;
    __device__ __forceinline__ Cover(int at, int windows, int kernel, int stride)
        : first(at < kernel ? 0 : (at - kernel) / stride + 1), last(min(at / stride, windows - 1)) {}
};

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_maxpool_grad_f32(float* __restrict__ dx, const float* __restrict__ dout,
                                                                        const int* __restrict__ index, int planes, int height,
                                                                        int width, int rows, int columns, int kernel, int stride,
                                                                        int* fault, int tag) {
    long long elements = static_cast<long long>(planes) * height * width;
    for (long long i = thread_number(); i < elements; i += thread_count()) {
        int y, at;
        long long plane = split(split(i, width, at), height, y);
        Cover down(y, rows, kernel, stride), across(at, columns, kernel, stride);
        int place = y * width + at;
        float sum = 0;
        for (int row = down.first; row <= down.last; row++) {
            long long line = (plane * rows + row) * columns;
            for (int column = across.first; column <= across.last; column++)
                if (index[line + column] == place) sum += dout[line + column];
        }
        dx[i] = sum;
    }
    // Places outside the plane come from an index that the forward did not fill.
    long long windows = static_cast<long long>(planes) * rows * columns;
    for (long long i = thread_number(); i < windows; i += thread_count()) {
        int place = index[i];
        if (place < 0 || place >= height * width) report(fault, tag, static_cast<int>(i), place);
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_avgpool_grad_f32(float* __restrict__ dx, const float* __restrict__ dout,
                                                                        int planes, int height, int width, int rows, int columns,
                                                                        int kernel, int stride) {
    long long elements = static_cast<long long>(planes) * height * width;
    float scale = 1 / (static_cast<float>(kernel) * kernel);
    for (long long i = thread_number(); i < elements; i += thread_count()) {
        int y, at;
        long long plane = split(split(i, width, at), height, y);
        Cover down(y, rows, kernel, stride), across(at, columns, kernel, stride);
        float sum = 0;
        for (int row = down.first; row <= down.last; row++) {
            long long line = (plane * rows + row) * columns;
            for (int column = across.first; column <= across.last; column++) sum += dout[line + column];
        }
        dx[i] = sum * scale;
    }
}
