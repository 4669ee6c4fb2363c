// Loads the library of CUDA kernels. It is a file of its own, so that one engine serves machines
// with a GPU and without: nothing of CUDA is linked to it. Called when a session asks for the
// device, from any thread; what the first caller found holds for the whole process.
#include "backend/cuda/cuda_library.h"

#include "base/check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
// Written once, under `once`.
static const struct eng_cuda_port *process_port;
static struct base_error process_error;

static void load(void)
{
    const char *path = getenv(ENG_CUDA_VARIABLE);
    path = path != NULL && path[0] != '\0' ? path : ENG_CUDA_LIBRARY;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)base_error_set(&process_error, BASE_ERR_NOT_FOUND, "no CUDA: %s", dlerror());
        return;
    }
    void *symbol = dlsym(library, ENG_CUDA_PORT_SYMBOL);
    eng_cuda_port_fn port = NULL;
    _Static_assert(sizeof port == sizeof symbol, "a function is found as an address");
    memcpy(&port, &symbol, sizeof port);
    if (port == NULL || port()->version != ENG_CUDA_PORT_VERSION) {
        (void)base_error_set(&process_error, BASE_ERR_UNSUPPORTED,
                             "no CUDA: %s is not a library of this engine's version", path);
        dlclose(library);
        return;
    }
    process_port = port();
}

enum base_status eng_cuda_library(const struct eng_cuda_port **out_port, struct base_error *error)
{
    pthread_once(&once, load);
    if (process_port == NULL) {
        base_assert(process_error.status != BASE_OK);
        return base_error_set(error, process_error.status, "%s", process_error.text);
    }
    *out_port = process_port;
    return BASE_OK;
}
