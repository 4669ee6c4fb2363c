// Kernels with a mistake each, for the test of what runs kernels on the processor
// (test_eng_cuda.c), and the same without it.
#include "backend/cuda/kernels/cuda_kernels.cuh"

#define COUNT ENG_CUDA_THREADS

// What a thread wrote is read by another one.
template <bool Waits> __global__ void turn(const eng_cuda_buffers b, const eng_cuda_fill p)
{
    __shared__ int values[COUNT];
    values[threadIdx.x] = (int)threadIdx.x;
    if (Waits) {
        __syncthreads();
    }
    ((int *)b.out[0])[threadIdx.x] = values[COUNT - 1 - threadIdx.x] + (int)p.bytes;
    __syncthreads();
    values[threadIdx.x] = -1;
}

// Writes one element more than there is.
__global__ void one_more(const eng_cuda_buffers b, const eng_cuda_fill p)
{
    ((int *)b.out[0])[threadIdx.x + 1] = (int)p.bytes;
}

__global__ void wait_apart(const eng_cuda_buffers b, const eng_cuda_fill)
{
    if (threadIdx.x == 0) {
        __syncthreads();
    } else {
        (void)__shfl_xor_sync(ENG_CUDA_ALL_LANES, 0.0F, 1);
    }
    ((int *)b.out[0])[threadIdx.x] = 0;
}

static const char *start(int which, void *out, cudaStream_t stream)
{
    static void (*const kernels[])(const eng_cuda_buffers, const eng_cuda_fill) = {
        turn<true>, turn<false>, one_more, wait_apart};
    const dim3 shape[2] = {dim3(1), dim3(COUNT)};
    eng_cuda_buffers buffers = {};
    buffers.out[0] = out;
    const eng_cuda_fill params = {0};
    eng_cuda_start(kernels[which], shape, stream, &buffers, &params);
    return eng_cuda_said(cudaGetLastError());
}

// Runs kernel `which` over COUNT numbers. NULL, or what went wrong.
extern "C" __attribute__((visibility("default"))) const char *planted_run(int which, int *numbers)
{
    cudaStream_t stream = nullptr;
    void *out = nullptr;
    const size_t bytes = COUNT * sizeof(int);
    if (cudaStreamCreate(&stream) != cudaSuccess || cudaMalloc(&out, bytes) != cudaSuccess) {
        return "out of memory";
    }
    const char *wrong = start(which, out, stream);
    if (wrong == nullptr) {
        wrong = eng_cuda_said(cudaMemcpyAsync(numbers, out, bytes, cudaMemcpyDeviceToHost, stream));
    }
    if (wrong == nullptr) {
        wrong = eng_cuda_said(cudaStreamDestroy(stream));
    }
    (void)cudaFree(out);
    return wrong;
}
