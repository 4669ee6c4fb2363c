// The part of CUDA that the kernels use, on the processor: what makes them ordinary C++ where there
// is no GPU. Included by kernels/cuda_kernels.cuh instead of CUDA's own headers.
//
// Blocks run one after the other in random order, and so do the threads of a block between two
// barriers: a kernel that depends on an order gives other results with other seeds
// (WALLE_CUDA_SEED). Device memory has addresses of its own, which the host cannot read: using one
// ends the process. A kernel that is handed an address that is not the device's is refused. What is
// begun on a stream happens when the stream is waited for and not before: a wait that is missing
// shows. While a stream is recorded, waiting for it and allocating fail, as on a GPU. Memory ends
// at a page that cannot be touched.
#ifndef ENG_CUDA_ON_CPU_H
#define ENG_CUDA_ON_CPU_H

#include "backend/cuda/cuda_port.h"

#include <math.h>
#include <string.h>

#define ENG_CUDA_ON_CPU         1
#define ENG_ON_CPU_PARAMS_BYTES 4096u // of a kernel, as on a GPU
#define ENG_ON_CPU_THREADS_MAX  1024u // of a block
#define ENG_ON_CPU_WARP         32u

#define __global__ static
#define __device__ static inline
#define __shared__ static // one block runs at a time

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
        : x(x_size), y(y_size), z(z_size)
    {
    }
};
extern dim3 eng_on_cpu_thread, eng_on_cpu_block, eng_on_cpu_threads, eng_on_cpu_blocks;
#define threadIdx eng_on_cpu_thread
#define blockIdx  eng_on_cpu_block
#define blockDim  eng_on_cpu_threads
#define gridDim   eng_on_cpu_blocks

// --- among the threads of a block ----------------------------------------------------------------
void __syncthreads(void);
// Of 32-bit values among the 32 threads of a warp, all of which take part.
uint32_t eng_on_cpu_shuffle(uint32_t bits, unsigned from_lane);
static inline float __shfl_xor_sync(unsigned, float value, unsigned mask)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    bits = eng_on_cpu_shuffle(bits, (eng_on_cpu_thread.x % ENG_ON_CPU_WARP) ^ mask);
    memcpy(&value, &bits, sizeof bits);
    return value;
}
static inline int atomicCAS(int *at, int expected, int desired)
{
    int before = *at;
    *at = before == expected ? desired : before;
    return before;
}

// --- memory and streams --------------------------------------------------------------------------
enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorStreamCaptureUnsupported = 900
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
typedef struct eng_on_cpu_stream *cudaStream_t;
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaStreamCreate(cudaStream_t *out_stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *at);
cudaError_t cudaMallocHost(void **out, size_t bytes);
cudaError_t cudaFreeHost(void *at);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);

// What is begun on a stream between both is noted, and happens with every launch of the graph.
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
typedef struct eng_on_cpu_graph *cudaGraph_t;
typedef struct eng_on_cpu_graph *cudaGraphExec_t;
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out_graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out_exec, cudaGraph_t graph, uint64_t flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

// --- launching -----------------------------------------------------------------------------------
typedef void (*eng_on_cpu_call)(const void *kernel, const eng_cuda_buffers *buffers,
                                const void *params);
struct eng_on_cpu_launch {
    dim3 grid, block;     // a block of no threads: the kernel is called once, outside of all blocks
    eng_on_cpu_call call; // knows the kernel's type
    const void *kernel;
    eng_cuda_buffers buffers;
    size_t params_bytes;
    alignas(16) unsigned char params[ENG_ON_CPU_PARAMS_BYTES];
};
void eng_on_cpu_begin(const eng_on_cpu_launch *launch, cudaStream_t stream);

template <class Params> struct eng_on_cpu_kernel {
    typedef void (*function)(const eng_cuda_buffers, const Params);
    static void call(const void *kernel, const eng_cuda_buffers *buffers, const void *params)
    {
        function run = nullptr;
        memcpy(&run, &kernel, sizeof run);
        run(*buffers, *static_cast<const Params *>(params));
    }
};

template <class Params>
static inline void eng_cuda_start(void (*kernel)(const eng_cuda_buffers, const Params),
                                  const dim3 (&shape)[2], cudaStream_t stream,
                                  const eng_cuda_buffers *buffers, const Params *params)
{
    static_assert(sizeof(Params) <= ENG_ON_CPU_PARAMS_BYTES, "as much as a kernel may take");
    eng_on_cpu_launch launch = {};
    launch.grid = shape[0];
    launch.block = shape[1];
    launch.call = eng_on_cpu_kernel<Params>::call;
    memcpy(&launch.kernel, &kernel, sizeof launch.kernel);
    launch.buffers = *buffers;
    launch.params_bytes = sizeof(Params);
    memcpy(launch.params, params, sizeof(Params));
    eng_on_cpu_begin(&launch, stream);
}

#endif
