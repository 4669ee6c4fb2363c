// Runs CUDA kernels on the processor: streams as lists of what is to be done, device memory, and
// the order of blocks. Threads of a block are in on_cpu_threads.cu. Called by kernels/cuda_port.cu
// from any thread; one lock for all, as blocks share their variables in shared memory.
#include "backend/cuda/on_cpu/on_cpu_threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace
{
const size_t page_bytes = 4096;
const size_t align_bytes = 64;

struct allocation {
    char *shown; // what the host is given: cannot be touched
    char *real;  // where the bytes are
    size_t bytes;
    allocation *next;
};
struct job {
    eng_on_cpu_launch launch; // call NULL: a copy
    void *to;
    const void *from;
    size_t bytes;
    job *next;
};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
allocation *allocations;
cudaError_t last_error;

size_t whole_pages(size_t bytes)
{
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

void *map(size_t bytes, int protection)
{
    void *at = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? nullptr : at;
}

// Where the device's bytes are; NULL: no address of the device.
char *real_of(const void *address, size_t bytes)
{
    const char *at = static_cast<const char *>(address);
    for (allocation *a = allocations; a != nullptr; a = a->next) {
        if (at >= a->shown && bytes <= a->bytes &&
            static_cast<size_t>(at - a->shown) <= a->bytes - bytes) {
            return a->real + (at - a->shown);
        }
    }
    return nullptr;
}

template <class Pointer> bool translate(Pointer *pointer)
{
    if (*pointer == nullptr) {
        return true;
    }
    char *real = real_of(*pointer, 0);
    *pointer = reinterpret_cast<Pointer>(real);
    return real != nullptr;
}

bool translate_all(eng_cuda_buffers *buffers)
{
    bool is_good = translate(&buffers->fault) & translate(&buffers->scratch);
    for (const void *&in : buffers->in) {
        is_good &= translate(&in);
    }
    for (void *&out : buffers->out) {
        is_good &= translate(&out);
    }
    return is_good;
}

void run_blocks(const eng_on_cpu_launch *launch)
{
    if (launch->block.x == 0) {
        launch->call(launch->kernel, &launch->buffers, launch->params);
        return;
    }
    const unsigned count = launch->grid.x * launch->grid.y * launch->grid.z;
    unsigned *order = static_cast<unsigned *>(malloc((count + 1) * sizeof *order));
    if (order == nullptr) {
        last_error = cudaErrorMemoryAllocation;
        return;
    }
    eng_on_cpu_shuffled(order, count);
    eng_on_cpu_threads = launch->block;
    eng_on_cpu_blocks = launch->grid;
    for (unsigned i = 0; i < count; i++) {
        eng_on_cpu_block =
            dim3(order[i] % launch->grid.x, order[i] / launch->grid.x % launch->grid.y,
                 order[i] / launch->grid.x / launch->grid.y);
        eng_on_cpu_run_block(launch);
    }
    free(order);
}

void do_job(job *work)
{
    if (work->launch.call != nullptr) {
        run_blocks(&work->launch);
    } else {
        memcpy(work->to, work->from, work->bytes);
    }
}

struct job_list {
    job *first, **last;
};

void empty(job_list *list)
{
    list->first = nullptr;
    list->last = &list->first;
}

job *take_first(job_list *list)
{
    job *work = list->first;
    list->first = work->next;
    list->last = list->first == nullptr ? &list->first : list->last;
    return work;
}

thread_local int captures; // of this thread
} // namespace

struct eng_on_cpu_graph {
    job_list jobs;
    int users; // the graph and what was instantiated of it
};
struct eng_on_cpu_stream {
    job_list jobs;
    cudaGraph_t notes; // NULL: not recorded
};

namespace
{
job *append(cudaStream_t stream)
{
    job *work = static_cast<job *>(calloc(1, sizeof *work));
    if (work == nullptr) {
        last_error = cudaErrorMemoryAllocation;
        return nullptr;
    }
    job_list *list = stream->notes != nullptr ? &stream->notes->jobs : &stream->jobs;
    *list->last = work;
    list->last = &work->next;
    return work;
}

void leave(cudaGraph_t graph)
{
    if (--graph->users > 0) {
        return;
    }
    while (graph->jobs.first != nullptr) {
        free(take_first(&graph->jobs));
    }
    free(graph);
}
} // namespace

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess                         ? "no error"
           : error == cudaErrorInvalidValue             ? "an address is not the device's"
           : error == cudaErrorStreamCaptureUnsupported ? "not while a stream is recorded"
                                                        : "out of device memory";
}

cudaError_t cudaGetLastError(void)
{
    pthread_mutex_lock(&lock);
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaStreamCreate(cudaStream_t *out_stream)
{
    cudaStream_t stream = static_cast<cudaStream_t>(calloc(1, sizeof *stream));
    if (stream == nullptr) {
        return cudaErrorMemoryAllocation;
    }
    empty(&stream->jobs);
    *out_stream = stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (stream->notes != nullptr) {
        return cudaErrorStreamCaptureUnsupported;
    }
    pthread_mutex_lock(&lock);
    while (stream->jobs.first != nullptr) {
        job *work = take_first(&stream->jobs);
        do_job(work);
        free(work);
    }
    pthread_mutex_unlock(&lock);
    return cudaGetLastError();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t error = cudaStreamSynchronize(stream);
    free(stream);
    return error;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    if (stream->notes != nullptr) {
        return cudaErrorStreamCaptureUnsupported;
    }
    cudaGraph_t notes = static_cast<cudaGraph_t>(calloc(1, sizeof *notes));
    if (notes == nullptr) {
        return cudaErrorMemoryAllocation;
    }
    empty(&notes->jobs);
    notes->users = 1;
    stream->notes = notes;
    captures++;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out_graph)
{
    *out_graph = stream->notes;
    captures -= stream->notes != nullptr;
    const bool was_recorded = stream->notes != nullptr;
    stream->notes = nullptr;
    return was_recorded ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out_exec, cudaGraph_t graph, uint64_t)
{
    graph->users++;
    *out_exec = graph;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&lock);
    for (const job *note = exec->jobs.first; note != nullptr; note = note->next) {
        job *work = append(stream);
        if (work == nullptr) {
            error = cudaErrorMemoryAllocation;
            break;
        }
        job *const next = work->next;
        memcpy(static_cast<void *>(work), note, sizeof *work);
        work->next = next;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    leave(exec);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    leave(graph);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    if (captures > 0) {
        return cudaErrorStreamCaptureUnsupported;
    }
    const size_t used = (bytes + align_bytes - 1) / align_bytes * align_bytes;
    const size_t pages = whole_pages(used + 1); // an address for nothing, too
    allocation *a = static_cast<allocation *>(calloc(1, sizeof *a));
    char *shown = static_cast<char *>(map(pages, PROT_NONE));
    char *real = static_cast<char *>(map(pages + page_bytes, PROT_READ | PROT_WRITE));
    if (a == nullptr || shown == nullptr || real == nullptr ||
        mprotect(real + pages, page_bytes, PROT_NONE) != 0) {
        free(a);
        if (shown != nullptr) {
            munmap(shown, pages);
        }
        if (real != nullptr) {
            munmap(real, pages + page_bytes);
        }
        return cudaErrorMemoryAllocation;
    }
    a->shown = shown;
    a->real = real + pages - used; // ends where nothing may be touched
    memset(a->real, 0xA5, used);   // nobody may count on zeroes
    a->bytes = bytes;
    pthread_mutex_lock(&lock);
    a->next = allocations;
    allocations = a;
    pthread_mutex_unlock(&lock);
    *out = shown;
    return cudaSuccess;
}

cudaError_t cudaFree(void *at)
{
    if (at == nullptr) {
        return cudaSuccess;
    }
    pthread_mutex_lock(&lock);
    allocation **link = &allocations;
    while (*link != nullptr && (*link)->shown != at) {
        link = &(*link)->next;
    }
    allocation *a = *link;
    if (a != nullptr) {
        *link = a->next;
    }
    pthread_mutex_unlock(&lock);
    if (a == nullptr) {
        return cudaErrorInvalidValue;
    }
    const size_t used = (a->bytes + align_bytes - 1) / align_bytes * align_bytes;
    const size_t pages = whole_pages(used + 1);
    munmap(a->shown, pages);
    munmap(a->real - (pages - used), pages + page_bytes);
    free(a);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    if (captures > 0) {
        return cudaErrorStreamCaptureUnsupported;
    }
    *out = aligned_alloc(align_bytes, (bytes / align_bytes + 1) * align_bytes);
    return *out == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFreeHost(void *at)
{
    free(at);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    const bool is_upload = kind == cudaMemcpyHostToDevice;
    pthread_mutex_lock(&lock);
    char *real = real_of(is_upload ? to : from, bytes);
    const bool is_good = real != nullptr && real_of(is_upload ? from : to, 0) == nullptr;
    job *work = is_good ? append(stream) : nullptr;
    if (work != nullptr) {
        work->to = is_upload ? real : to;
        work->from = is_upload ? from : real;
        work->bytes = bytes;
    }
    pthread_mutex_unlock(&lock);
    return !is_good          ? cudaErrorInvalidValue
           : work == nullptr ? cudaErrorMemoryAllocation
                             : cudaSuccess;
}

void eng_on_cpu_begin(const eng_on_cpu_launch *launch, cudaStream_t stream)
{
    pthread_mutex_lock(&lock);
    eng_on_cpu_launch copy = *launch;
    const unsigned threads = launch->block.x * launch->block.y * launch->block.z;
    if (!translate_all(&copy.buffers) || threads > ENG_ON_CPU_THREADS_MAX) {
        last_error = cudaErrorInvalidValue;
    } else {
        job *work = append(stream);
        if (work != nullptr) {
            work->launch = copy;
        }
    }
    pthread_mutex_unlock(&lock);
}
