// model.conf from anybody: refused with a line and a reason, or every number within its range.
#include "fuzz_target.h"

#include "base/check.h"
#include "infer/infer_batch.h"
#include "infer/infer_settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_infer_settings settings;
    struct base_error error = {0};
    gw_infer_settings_defaults(&settings);
    enum base_status status =
        gw_infer_settings_parse(&settings, (struct base_str){(const char *)data, size}, &error);
    if (status != BASE_OK) {
        base_check(status == BASE_ERR_INVALID && error.line > 0 && error.text[0] != '\0');
        return 0;
    }
    base_check(settings.max_batch >= 1 && settings.max_batch <= GW_INFER_BATCH_MAX);
    base_check(settings.queue >= 1 && settings.queue <= GW_INFER_QUEUE_MAX);
    base_check(settings.version_count <= GW_INFER_VERSIONS_MAX);
    base_check(settings.warm_count <= GW_INFER_WARM_MAX);
    for (uint32_t i = 0; i < settings.alias_count; i++) {
        base_check(gw_infer_name_ok(base_str_of(settings.aliases[i])));
    }
    return 0;
}
