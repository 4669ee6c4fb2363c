// The seam between the core and the tunnel, which the core does not know: uploads
// that registered versions declare go there, figures for /metrics come from there, and the operator
// API finds it here.
#ifndef GW_TUNNEL_SEAM_H
#define GW_TUNNEL_SEAM_H

#include "base/error.h"
#include "wire/batch.h"
#include "wire/manifest.h"

struct gw_core;
struct gw_tunnel; // tunnel/gw_tunnel.h

// A figure whose name says seconds comes in microseconds.
typedef void (*gw_figure_fn)(void *ctx, const char *name, const char *type, const char *help,
                             uint64_t value);

// An upload that a version of a tenant's task declares.
struct gw_upload {
    uint32_t tenant;
    struct wire_upload_key key;
    uint8_t class_id;
    struct base_str schema; // empty: every record is fine
};

struct gw_tunnel_seam {
    struct gw_tunnel *self; // outlives the workers
    enum base_status (*declare)(struct gw_tunnel *tunnel, const struct gw_upload *upload,
                                struct base_error *error);
    void (*figures)(struct gw_tunnel *tunnel, gw_figure_fn add, void *ctx);
};

// Main thread, before the first worker is made. Declares what all registered versions declare; what
// cannot be is logged. `seam` is copied.
void gw_core_set_tunnel(struct gw_core *core, const struct gw_tunnel_seam *seam);
// NULL: there is none. Any thread.
struct gw_tunnel *gw_core_tunnel(const struct gw_core *core);
// A version of a task of `tenant` is registered: its uploads. INVALID (a schema; `error` says what
// and where), CONFLICT, LIMIT, NOMEM. Control thread.
BASE_NODISCARD enum base_status gw_core_declare_uploads(struct gw_core *core, uint16_t tenant,
                                                        const struct wire_manifest *manifest,
                                                        struct base_error *error);
// Bytes of a released dictionary on the heap, to free(). NOT_FOUND, IO, NOMEM, CORRUPT. Any thread
// that may wait.
BASE_NODISCARD enum base_status gw_core_load_dict(struct gw_core *core, uint32_t id,
                                                  uint8_t **out_bytes, size_t *out_size);

#endif
