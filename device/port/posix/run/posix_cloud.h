// Calls of models in the cloud that a script makes while it runs (walle.cloud), carried from the
// task worker's thread to the loop, which owns the runtime and its connection, and the answers
// back. The worker waits meanwhile; the loop never waits for it. One call at a time.
#ifndef POSIX_CLOUD_H
#define POSIX_CLOUD_H

#include "device/cloud.h"
#include "vm/vm.h"

struct posix_cloud;

// What a run's calls may send: asked on the worker's thread before a call is queued. ANSWERED: it
// may leave; otherwise why not, with a text. NULL: whatever it is.
struct posix_cloud_leave {
    void *ctx;
    enum wire_cloud_why (*may)(void *ctx, const struct dev_vm_cloud_call *call,
                               const struct wire_tensor_call *parsed, char *out_detail,
                               size_t detail_size);
};

// `wake` is called on the worker's thread when a call waits: then posix_cloud_serve is to be called
// on the loop. NOMEM.
BASE_NODISCARD enum base_status posix_cloud_new(void *ctx, void (*wake)(void *ctx),
                                                struct posix_cloud **out);
void posix_cloud_free(struct posix_cloud *cloud); // accepts NULL; nobody waits
// For a job: asks and waits. CLOSED once posix_cloud_close was called.
struct dev_vm_cloud_port posix_cloud_port(struct posix_cloud *cloud);
// Loop: hands what waits to the runtime (NULL: OFFLINE). True: a call was begun, so tick it.
bool posix_cloud_serve(struct posix_cloud *cloud, struct dev_runtime *runtime);
// Loop: the run is to end; whoever waits gets CLOSED. Open again before the next run.
void posix_cloud_close(struct posix_cloud *cloud);
void posix_cloud_open(struct posix_cloud *cloud, const struct posix_cloud_leave *leave);

#endif
