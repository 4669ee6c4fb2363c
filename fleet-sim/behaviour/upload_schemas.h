// Would the gateway take a record? It holds each against the schema that its upload declares; a
// simulation does the same, by the gateway's own check.
//
// A shard's thread owns one: a schema is parsed once, and kept by its text's hash.
#ifndef SIM_UPLOAD_SCHEMAS_H
#define SIM_UPLOAD_SCHEMAS_H

#include "pipeline/pipeline.h"
#include "tunnel/schema/schema.h"

#define SIM_UPLOAD_SCHEMAS_MAX 64 // kept; what is beyond is parsed each time
#define SIM_REFUSED_WHY_MAX    256

struct sim_upload_schemas {
    uint64_t hashes[SIM_UPLOAD_SCHEMAS_MAX];
    struct gw_schema *items[SIM_UPLOAD_SCHEMAS_MAX];
    uint32_t count;
};

void sim_upload_schemas_done(struct sim_upload_schemas *schemas);
// False: the gateway would refuse it, and `out_why` says what and why: "shop/spent: n is no
// integer". NULL: nobody asks why.
bool sim_upload_taken(struct sim_upload_schemas *schemas, const struct wire_upload_record *upload,
                      char out_why[SIM_REFUSED_WHY_MAX]);

#endif
