// The TLS context of a port: what the gateway is verified by and what is shown to it, from files
// that are looked at first. Called by posix_port.c for the device's connections and by
// posix_enroll.c before there are any, on the thread of the event base.
#include "posix/posix_tls.h"

#include "base/os/regular_file.h"

static bool any_tls(const struct posix_options *options)
{
    bool tls = options->tls;
    for (uint32_t i = 0; i < options->mirror_count; i++) {
        tls = tls || options->mirrors[i].tls;
    }
    return tls;
}

// The TLS library opens files by itself, and would wait for a pipe and read on for ever.
static enum base_status look_at_files(const struct posix_options *options, struct base_error *error)
{
    const struct {
        const char *what;
        const char *path;
    } files[] = {{"the gateway's certificate (CA)", options->ca_pem_path},
                 {"the device's certificate", options->certificate_path},
                 {"the device's certificate key", options->certificate_key_path}};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct base_error inner = {0};
        if (files[i].path != NULL &&
            base_regular_holds(files[i].path, BASE_PEM_BYTES_MAX, &inner) != BASE_OK) {
            return base_error_set(error, BASE_ERR_INVALID, "%s cannot be read: %s", files[i].what,
                                  inner.text);
        }
    }
    return BASE_OK;
}

enum base_status posix_tls_new(const struct posix_options *options, struct h2_tls **out_tls,
                               struct base_error *error)
{
    struct h2_tls *tls = NULL;
    if (any_tls(options)) {
        BASE_TRY(look_at_files(options, error));
        enum base_status status = h2_tls_new(options->ca_pem_path, &tls);
        if (status != BASE_OK) {
            return base_error_set(error, status, "%s: no usable certificates",
                                  options->ca_pem_path != NULL ? options->ca_pem_path : "TLS");
        }
        h2_tls_born(tls, options->config.born_s);
    }
    if (tls != NULL && options->certificate_path != NULL &&
        h2_tls_certificate(tls, options->certificate_path, options->certificate_key_path) !=
            BASE_OK) {
        h2_tls_free(tls);
        return base_error_set(error, BASE_ERR_INVALID, "%s: no usable certificate and key",
                              options->certificate_path);
    }
    *out_tls = tls;
    return BASE_OK;
}
