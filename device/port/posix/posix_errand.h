// Errands: requests of the app to its service behind the gateway (posix_business in posix_port.h).
#ifndef POSIX_ERRAND_H
#define POSIX_ERRAND_H

#include "posix/posix_http.h"
#include "posix/posix_port.h"

struct posix_errand;
struct posix_errand_place {
    struct posix_http *http;
    struct dev_runtime *runtime;
    struct base_str credential; // empty: none; these two live as long as the port
    struct base_str device;
    void *ctx;
    void (*woke)(void *ctx);
};
// The codes of posix_business.
BASE_NODISCARD enum base_status posix_errand_new(const struct posix_errand_place *place,
                                                 struct event_base *base,
                                                 const struct posix_business *request);
void posix_errand_head(struct posix_errand *errand, const struct h2_head *head);
void posix_errand_body(struct posix_errand *errand, const uint8_t *bytes, size_t size);
// Frees it, after the app was told, when it is to be.
void posix_errand_end(struct posix_errand *errand, enum base_status status, bool tell);

#endif
