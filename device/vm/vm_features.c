// Queries of scripts to the store of features (walle.data.query). Its port is given to runs by the
// simulator (sim_task.c) and by `walle task run` (cli/task/task_play.c), and called inside a run,
// on the VM's thread, which there is the store's. The Linux agent does not use it: its store is the
// loop's, and a run on another thread or in a process asks across (posix/run/posix_query.c). A
// query that found more than fits gives what fits.
#include "vm/vm_features.h"

#include <stdlib.h>

static bool row_give(void *ctx, const struct dev_feature_row *row)
{
    struct dev_vm_features *features = ctx;
    return features->visit(features->visit_ctx, row->key, row->time_ms, row->value,
                           row->value_size);
}

static enum base_status own(struct dev_vm_features *features, dev_vm_row_fn visit, void *visit_ctx)
{
    uint8_t *image = malloc(WIRE_STORE_IMAGE_MAX);
    size_t size = 0;
    if (image == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status = dev_task_store_load(dev_feature_store_collect(features->store),
                                                  &features->of, image, &size);
    if (status == BASE_OK) {
        (void)visit(visit_ctx, (struct base_str){NULL, 0}, 0, image, size);
    }
    free(image);
    return status;
}

static enum base_status query(void *ctx, const struct dev_vm_query *asked, dev_vm_row_fn visit,
                              void *visit_ctx)
{
    struct dev_vm_features *features = ctx;
    if (features->store == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    if (asked->feature.size == 0) {
        return own(features, visit, visit_ctx);
    }
    struct dev_feature_query find = {
        .feature = asked->feature,
        .key = asked->key,
        .every_key = asked->every_key,
        .from_ms = asked->from_ms,
        .to_ms = asked->to_ms,
        .newest = asked->newest,
    };
    features->visit = visit;
    features->visit_ctx = visit_ctx;
    enum base_status status =
        dev_feature_find(features->store, features->now_us, &find, row_give, features);
    return status == BASE_ERR_LIMIT ? BASE_OK : status;
}

struct dev_vm_data_port dev_vm_features_port(struct dev_vm_features *features)
{
    return (struct dev_vm_data_port){.ctx = features, .query = query};
}
