// Memory of the device "cuda" over the library of kernels: a stream for each session, and the place
// where kernels note an index that is out of range. That is fetched with every wait, so that a run
// ends with an error that names the node. Called on the session's thread.
#include "backend/cuda/cuda_device.h"

#include "backend/cuda/cuda_library.h"
#include "base/check.h"

#include <stdlib.h>
#include <string.h>

static struct eng_cuda_device *cuda_of(struct eng_device *device)
{
    return (struct eng_cuda_device *)device;
}

static enum base_status said(const char *wrong, struct base_error *error)
{
    return wrong == NULL ? BASE_OK : base_error_set(error, BASE_ERR_IO, "cuda: %s", wrong);
}

static enum base_status allocate(struct eng_device *device, size_t bytes, void **out,
                                 struct base_error *error)
{
    const char *wrong = cuda_of(device)->port->allocate(bytes, out);
    return wrong == NULL
               ? BASE_OK
               : base_error_set(error, BASE_ERR_NOMEM, "cuda: %zu bytes: %s", bytes, wrong);
}

static void release(struct eng_device *device, void *at)
{
    cuda_of(device)->port->release(at);
}

static enum base_status allocate_host(struct eng_device *device, size_t bytes, void **out,
                                      struct base_error *error)
{
    const char *wrong = cuda_of(device)->port->allocate_host(bytes, out);
    return wrong == NULL ? BASE_OK
                         : base_error_set(error, BASE_ERR_NOMEM, "cuda: %zu bytes of the host: %s",
                                          bytes, wrong);
}

static void release_host(struct eng_device *device, void *at)
{
    cuda_of(device)->port->release_host(at);
}

static enum base_status upload(struct eng_device *device, void *to, const void *from, size_t bytes,
                               struct base_error *error)
{
    struct eng_cuda_device *cuda = cuda_of(device);
    return bytes == 0 ? BASE_OK : said(cuda->port->upload(cuda->stream, to, from, bytes), error);
}

static enum base_status download(struct eng_device *device, void *to, const void *from,
                                 size_t bytes, struct base_error *error)
{
    struct eng_cuda_device *cuda = cuda_of(device);
    return bytes == 0 ? BASE_OK : said(cuda->port->download(cuda->stream, to, from, bytes), error);
}

// Forgets the fault, on both sides.
static enum base_status clear_fault(struct eng_cuda_device *cuda, struct base_error *error)
{
    memset(cuda->fetched, 0, sizeof *cuda->fetched);
    BASE_TRY(
        said(cuda->port->upload(cuda->stream, cuda->faults, cuda->fetched, sizeof *cuda->fetched),
             error));
    return said(cuda->port->sync(cuda->stream), error);
}

static enum base_status sync(struct eng_device *device, const struct eng_program *program,
                             uint32_t *out_command, struct base_error *error)
{
    struct eng_cuda_device *cuda = cuda_of(device);
    BASE_TRY(
        said(cuda->port->download(cuda->stream, cuda->fetched, cuda->faults, sizeof *cuda->fetched),
             error));
    BASE_TRY(said(cuda->port->sync(cuda->stream), error));
    if (cuda->fetched->is_claimed == 0) {
        return BASE_OK;
    }
    const struct eng_cuda_fault fault = *cuda->fetched;
    base_assert(program != NULL && fault.command < program->command_count);
    BASE_TRY(clear_fault(cuda, error));
    *out_command = fault.command;
    return base_error_set(error, BASE_ERR_INVALID, "%s: index %lld is outside -%lld..%lld",
                          eng_atomic_text(program->commands[fault.command].op),
                          (long long)fault.index, (long long)fault.size, (long long)fault.size - 1);
}

// A recording is a graph of the library.
static enum base_status record(struct eng_device *device, struct base_error *error)
{
    return said(cuda_of(device)->port->record(cuda_of(device)->stream), error);
}

static enum base_status recorded(struct eng_device *device, struct eng_recording **out_recording,
                                 struct base_error *error)
{
    struct eng_cuda_graph *graph = NULL;
    BASE_TRY(said(cuda_of(device)->port->recorded(cuda_of(device)->stream, &graph), error));
    *out_recording = (struct eng_recording *)graph;
    return BASE_OK;
}

static enum base_status replay(struct eng_device *device, struct eng_recording *recording,
                               struct base_error *error)
{
    struct eng_cuda_graph *graph = (struct eng_cuda_graph *)recording;
    base_assert(graph != NULL);
    return said(cuda_of(device)->port->replay(cuda_of(device)->stream, graph), error);
}

static void forget(struct eng_device *device, struct eng_recording *recording)
{
    cuda_of(device)->port->forget((struct eng_cuda_graph *)recording);
}

static void close_device(struct eng_device *device)
{
    struct eng_cuda_device *cuda = cuda_of(device);
    cuda->port->release(cuda->faults);
    cuda->port->release_host(cuda->fetched);
    cuda->port->close(cuda->stream);
    free(cuda);
}

static enum base_status open_stream(struct eng_cuda_device *cuda, struct base_error *error)
{
    void *faults = NULL, *fetched = NULL;
    const char *wrong = cuda->port->open(&cuda->stream);
    if (wrong != NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no CUDA: %s", wrong);
    }
    BASE_TRY(allocate(&cuda->base, sizeof *cuda->faults, &faults, error));
    cuda->faults = faults;
    BASE_TRY(allocate_host(&cuda->base, sizeof *cuda->fetched, &fetched, error));
    cuda->fetched = fetched;
    return clear_fault(cuda, error);
}

enum base_status eng_cuda_open(struct eng_device **out_device, struct base_error *error)
{
    static const struct eng_memory memory = {.allocate = allocate,
                                             .release = release,
                                             .allocate_host = allocate_host,
                                             .release_host = release_host,
                                             .upload = upload,
                                             .download = download,
                                             .sync = sync,
                                             .record = record,
                                             .recorded = recorded,
                                             .replay = replay,
                                             .forget = forget};
    const struct eng_cuda_port *port = NULL;
    BASE_TRY(eng_cuda_library(&port, error));
    struct eng_cuda_device *cuda = calloc(1, sizeof *cuda);
    if (cuda == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_assert(port != NULL); // found, or an error was told
    cuda->port = port;
    cuda->base = (struct eng_device){
        .name = "cuda", .memory = &memory, .prepare = eng_cuda_prepare, .close = close_device};
    enum base_status status = open_stream(cuda, error);
    if (status != BASE_OK) {
        close_device(&cuda->base);
        return status;
    }
    *out_device = &cuda->base;
    return BASE_OK;
}
