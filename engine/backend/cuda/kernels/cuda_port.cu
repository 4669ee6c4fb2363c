// What the library shows: memory, streams, and one way to start any kernel.
#include "backend/cuda/kernels/cuda_kernels.cuh"

#include <stdlib.h>

static void close_stream(eng_cuda_stream *stream)
{
    if (stream != nullptr) {
        (void)cudaStreamDestroy(stream->stream); // waits: products use what is closed next
        eng_cuda_lt_close(stream);
        free(stream);
    }
}

static const char *open_stream(eng_cuda_stream **out_stream)
{
    eng_cuda_stream *stream = (eng_cuda_stream *)calloc(1, sizeof *stream);
    if (stream == nullptr) {
        return "out of memory";
    }
    const char *wrong = eng_cuda_said(cudaStreamCreate(&stream->stream));
    if (wrong != nullptr) {
        free(stream);
        return wrong;
    }
    *out_stream = stream;
    return nullptr;
}

static const char *allocate(size_t bytes, void **out)
{
    return eng_cuda_said(cudaMalloc(out, bytes > 0 ? bytes : 1));
}

static void release(void *at)
{
    (void)cudaFree(at);
}

static const char *allocate_host(size_t bytes, void **out)
{
    return eng_cuda_said(cudaMallocHost(out, bytes > 0 ? bytes : 1));
}

static void release_host(void *at)
{
    (void)cudaFreeHost(at);
}

static const char *upload(eng_cuda_stream *stream, void *to, const void *from, size_t bytes)
{
    return eng_cuda_said(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream->stream));
}

static const char *download(eng_cuda_stream *stream, void *to, const void *from, size_t bytes)
{
    return eng_cuda_said(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream->stream));
}

static const char *sync(eng_cuda_stream *stream)
{
    return eng_cuda_said(cudaStreamSynchronize(stream->stream));
}

struct eng_cuda_graph {
    cudaGraphExec_t runs;
};

static const char *record(eng_cuda_stream *stream)
{
    return eng_cuda_said(cudaStreamBeginCapture(stream->stream, cudaStreamCaptureModeThreadLocal));
}

static void forget(eng_cuda_graph *graph)
{
    if (graph != nullptr) {
        (void)cudaGraphExecDestroy(graph->runs);
        free(graph);
    }
}

static const char *recorded(eng_cuda_stream *stream, eng_cuda_graph **out_graph)
{
    cudaGraph_t notes = nullptr;
    eng_cuda_graph *graph = (eng_cuda_graph *)calloc(1, sizeof *graph);
    const char *wrong = eng_cuda_said(cudaStreamEndCapture(stream->stream, &notes));
    if (graph == nullptr) {
        wrong = "out of memory";
    }
    if (wrong == nullptr) {
        wrong = eng_cuda_said(cudaGraphInstantiate(&graph->runs, notes, 0));
    }
    if (notes != nullptr) {
        (void)cudaGraphDestroy(notes);
    }
    if (wrong != nullptr) {
        (void)cudaGetLastError(); // the next launch is not blamed
        free(graph);
        return wrong;
    }
    *out_graph = graph;
    return nullptr;
}

static const char *replay(eng_cuda_stream *stream, eng_cuda_graph *graph)
{
    return eng_cuda_said(cudaGraphLaunch(graph->runs, stream->stream));
}

static const char *launch(eng_cuda_stream *stream, eng_cuda_kernel kernel,
                          const eng_cuda_buffers *buffers, const void *params)
{
    switch (kernel) {
#define START(NAME, name)                                                                          \
    case ENG_CUDA_##NAME:                                                                          \
        return eng_cuda_start_##name(stream, buffers, (const eng_cuda_##name *)params);
        ENG_CUDA_KERNELS(START)
#undef START
    default:
        return "no such kernel";
    }
}

extern "C" __attribute__((visibility("default"))) const eng_cuda_port *eng_cuda_port(void)
{
    static const struct eng_cuda_port port = {ENG_CUDA_PORT_VERSION,
                                              open_stream,
                                              close_stream,
                                              allocate,
                                              release,
                                              allocate_host,
                                              release_host,
                                              upload,
                                              download,
                                              sync,
                                              launch,
                                              record,
                                              recorded,
                                              replay,
                                              forget};
    return &port;
}
