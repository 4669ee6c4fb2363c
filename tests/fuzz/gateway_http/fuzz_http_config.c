// Fuzz target of the settings file: any bytes give settings within their ranges, or an error with a
// text and a line.
#include "http/config/http_config.h"

#include "base/check.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_http_config config;
    struct base_error error = {0};
    gw_http_config_defaults(&config);
    enum base_status status =
        gw_http_config_parse(&config, (struct base_str){(const char *)data, size}, &error);
    base_check(status == BASE_OK || (error.text[0] != '\0' && error.line > 0));
    size_t count = 0;
    const struct gw_config_row *rows = gw_http_config_rows(&count);
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)&config + rows[i].offset;
        if (rows[i].kind == GW_CONFIG_NUMBER) {
            uint64_t value = *(const uint64_t *)(const void *)at;
            base_check(value >= rows[i].min && value <= rows[i].max);
        }
    }
    return 0;
}
