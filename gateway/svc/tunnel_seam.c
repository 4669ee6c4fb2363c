// What versions declare to upload, on its way to the tunnel: at start from the
// catalog, then with each version that is registered. Main and control thread. gateway_main.c sets
// the seam before workers start, catalog.c calls for a new version, api_tunnel.c asks for the
// tunnel. The core knows a pointer and two functions and no header of gateway/tunnel, so it is
// tested and simulated without a tunnel.
#include "svc/tunnel_seam.h"

#include "svc/core_private.h"

#include "wire/declaration.h"

#include <stdlib.h>
#include <string.h>

struct gw_tunnel *gw_core_tunnel(const struct gw_core *core)
{
    return core->hooks.tunnel.self;
}

enum base_status gw_core_declare_uploads(struct gw_core *core, uint16_t tenant,
                                         const struct wire_manifest *manifest,
                                         struct base_error *error)
{
    struct wire_declaration declaration;
    if (core->hooks.tunnel.self == NULL || manifest->declaration.size == 0) {
        return BASE_OK;
    }
    enum base_status status = wire_declaration_parse((const uint8_t *)manifest->declaration.data,
                                                     manifest->declaration.size, &declaration);
    if (status != BASE_OK) {
        return base_error_set(error, status, "manifest: declaration: %s", base_status_text(status));
    }
    for (uint32_t i = 0; i < declaration.upload_count; i++) {
        const struct wire_upload *declared = &declaration.uploads[i];
        const struct gw_upload upload = {
            .tenant = tenant,
            .key = {manifest->task_name, declared->name, declared->schema_version},
            .class_id = declared->class_id,
            .schema = declared->schema,
        };
        BASE_TRY(core->hooks.tunnel.declare(core->hooks.tunnel.self, &upload, error));
    }
    return BASE_OK;
}
