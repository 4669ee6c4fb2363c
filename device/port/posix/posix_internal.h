// What the files of the posix port share.
#ifndef POSIX_INTERNAL_H
#define POSIX_INTERNAL_H

#include "posix/posix_port.h"

#include "h2/h2_client.h"

#include <event2/event.h>

// ---- posix_storage.c
struct posix_storage;
BASE_NODISCARD enum base_status posix_storage_new(const char *dir, const struct base_log *log,
                                                  struct posix_storage **out_storage,
                                                  struct base_error *error);
void posix_storage_free(struct posix_storage *storage);
struct dev_storage_port posix_storage_table(struct posix_storage *storage);
enum base_status posix_status_of_errno(int error);
enum base_status posix_status_of_mdb(int result); // what LMDB answers

// ---- posix_http.c
struct posix_http;
struct posix_http_options {
    struct event_base *base;
    struct base_str host; // copied
    uint16_t port;
    struct h2_tls *tls;         // owned by the caller
    struct base_str credential; // shown with every request; empty: none; owned by the caller
    const struct base_log *log;
    void *ctx;
    void (*woke)(void *ctx); // something was handed to the runtime: tick it
};
BASE_NODISCARD enum base_status posix_http_new(const struct posix_http_options *options,
                                               struct posix_http **out_http);
void posix_http_free(struct posix_http *http);
// The runtime that responses go to; before the first request.
void posix_http_attach(struct posix_http *http, struct dev_runtime *runtime);
struct dev_http_port posix_http_table(struct posix_http *http);

// ---- posix_port.c
// The TLS context of the options, NULL for clear text.
BASE_NODISCARD enum base_status posix_tls_new(const struct posix_options *options,
                                              struct h2_tls **out_tls, struct base_error *error);

// ---- posix_task.c
struct posix_task;
BASE_NODISCARD enum base_status posix_task_new(struct event_base *base, void *ctx,
                                               void (*woke)(void *ctx),
                                               struct posix_task **out_task);
void posix_task_free(struct posix_task *task);
void posix_task_attach(struct posix_task *task, struct dev_runtime *runtime);
struct dev_task_port posix_task_table(struct posix_task *task);

#endif
