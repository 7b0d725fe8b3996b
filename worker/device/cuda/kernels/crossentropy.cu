// Softmax cross-entropy straight from logits.

#include "fault.cuh"
#include "sum.cuh"
#include "walk.cuh"

// Softmax is the largest logit so far and the sum of exp(logit - top), which
// shrinks when top grows. A NaN or +inf makes the sum NaN; -inf adds nothing.
struct Softmax {
    float top;
    double sum;

    __device__ __forceinline__ void take(float x) {
        if (x > top) {
            sum = sum * expf(top - x) + (1 + (x - x));
            top = x;
        } else if (x != -INFINITY) {
            sum += expf(x - top);
        }
    }
};

// A row is read twice: for the softmax, and for the gradient.
//
// The loss is log(sum) + (top - logit): no term cancels another, so nothing is
// lost where the probability is near 1 (sum is 1 and the rest then, in
// float64) or underflows.
extern "C" __global__ void __launch_bounds__(1024, 1) ddp_cross_entropy_f32(float* dlogits, float* row_loss, int* row_hit,
                                                                         const float* logits, const int* targets, int rows, int n,
                                                                         float scale, int* fault, int tag) {
    for (long long r = blockIdx.x; r < rows; r += gridDim.x) {
        const float* x = logits + r * n;
        float* dx = dlogits ? dlogits + r * n : nullptr;
        int target = targets[r];
        if (target < 0 || target >= n) {
            if (threadIdx.x == 0) {
                if (target >= n) report(fault, tag, static_cast<int>(r), target);
                if (row_loss) row_loss[r] = 0;
                if (row_hit) row_hit[r] = 0;
            }
            if (dx) {
                walk_block(n, head(dx), [&](auto w, long long i) {
                    Lanes<w.value> zero = {};
                    store(dx + i, zero);
                });
            }
            continue;
        }
        float at = x[target];
        bool before = false; // some logit in front of the target is as large
        Softmax s = {-INFINITY, 0};
        walk_block(n, head(x), [&](auto w, long long i) {
            auto v = load<w.value>(x + i);
#pragma unroll
            for (int k = 0; k < w.value; k++) {
                s.take(v.v[k]);
                before |= i + k < target && v.v[k] >= at;
            }
        });
        // The barriers in here let no thread write while another still reads.
        float top = block_max(s.top);
        double sum = block_sum(s.top == -INFINITY ? s.sum : s.sum * expf(s.top - top));
        before = __syncthreads_or(before);
        if (threadIdx.x == 0) {
            if (row_loss) row_loss[r] = static_cast<float>(log(sum) + (static_cast<double>(top) - at));
            if (row_hit) row_hit[r] = at == top && !before;
        }
        if (!dx) continue;
        // The target's own gradient is the rest of the row's, negated: 1 - p
        // would lose it where p is near 1.
        float inverse = static_cast<float>(1 / sum), own = static_cast<float>((expf(at - top) - sum) / sum);
        walk_block(n, head(x, dx), [&](auto w, long long i) {
            auto v = load<w.value>(x + i);
#pragma unroll
            for (int k = 0; k < w.value; k++) v.v[k] = (i + k == target ? own : expf(v.v[k] - top) * inverse) * scale;
            store(dx + i, v);
        });
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_cross_entropy_finish_f32(float* loss, int* correct, const float* row_loss,
                                                                                const int* row_hit, int rows) {
    double losses = 0;
    int hits = 0;
    for (long long r = threadIdx.x; r < rows; r += blockDim.x) {
        if (loss && row_loss) losses += row_loss[r];
        if (correct && row_hit) hits += row_hit[r];
    }
    losses = block_sum(losses);
    hits = block_sum(hits);
    if (threadIdx.x > 0) return;
    if (loss && row_loss) loss[0] = static_cast<float>(loss[0] + losses);
    if (correct && row_hit) correct[0] += hits;
}
