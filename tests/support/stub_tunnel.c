// A tunnel for tests of the transport: every session sends back what it gets, but for frames whose
// type asks for something else (stub_tunnel.h). Counts what a test wants to know.
#include "stub_tunnel.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

struct gw_tunnel {
    int unused;
};

struct gw_tunnel_worker {
    struct gw_session *sessions;
};

struct gw_session {
    struct gw_session *next;
    struct gw_session **prev;
    struct gw_session_port port;
};

struct stub_tunnel_counts stub_tunnel_counts;

enum base_status gw_tunnel_new(const struct gw_tunnel_options *options, struct gw_tunnel **out,
                               struct base_error *error)
{
    (void)options;
    (void)error;
    *out = calloc(1, sizeof(**out));
    return *out != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

enum base_status gw_tunnel_declare(struct gw_tunnel *tunnel, const struct gw_upload *upload,
                                   struct base_error *error)
{
    (void)tunnel;
    (void)upload;
    (void)error;
    return BASE_OK;
}

void gw_tunnel_figures(struct gw_tunnel *tunnel, gw_figure_fn add, void *ctx)
{
    (void)tunnel;
    (void)add;
    (void)ctx;
}

void gw_tunnel_free(struct gw_tunnel *tunnel)
{
    free(tunnel);
}

enum base_status gw_tunnel_worker_new(struct gw_tunnel *tunnel, void *post_ctx,
                                      void (*post)(void *post_ctx, struct gw_message *message),
                                      struct gw_tunnel_worker **out)
{
    (void)tunnel;
    (void)post_ctx;
    (void)post;
    *out = calloc(1, sizeof(**out));
    return *out != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

void gw_tunnel_worker_free(struct gw_tunnel_worker *worker)
{
    base_check(worker == NULL || worker->sessions == NULL);
    free(worker);
}

enum base_status gw_session_open(struct gw_tunnel_worker *worker, uint64_t device, uint32_t tenant,
                                 const struct gw_session_port *port, struct gw_session **out)
{
    struct gw_session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        return BASE_ERR_NOMEM;
    }
    session->port = *port;
    stub_tunnel_counts.device = device;
    stub_tunnel_counts.tenant = tenant;
    session->next = worker->sessions;
    session->prev = &worker->sessions;
    if (session->next != NULL) {
        session->next->prev = &session->next;
    }
    worker->sessions = session;
    atomic_fetch_add(&stub_tunnel_counts.open, 1);
    *out = session;
    return BASE_OK;
}

static bool answer(struct gw_session *session, const uint8_t *bytes, size_t size)
{
    if (session->port.write(session->port.ctx, bytes, size)) {
        return true;
    }
    atomic_fetch_add(&stub_tunnel_counts.refused, 1);
    session->port.end(session->port.ctx, true);
    return false;
}

enum base_status gw_session_receive(struct gw_session *session, const uint8_t *bytes, size_t size)
{
    atomic_fetch_add(&stub_tunnel_counts.bytes, size);
    switch (bytes[0]) {
    case STUB_TUNNEL_BAD:
        return BASE_ERR_INVALID;
    case STUB_TUNNEL_END:
        session->port.end(session->port.ctx, false);
        return BASE_OK;
    case STUB_TUNNEL_FLOOD:
        for (int i = 0; i < STUB_TUNNEL_FLOOD_WRITES; i++) {
            static const uint8_t piece[4096];
            if (!answer(session, piece, sizeof(piece))) {
                break;
            }
        }
        return BASE_OK;
    case STUB_TUNNEL_SWALLOW:
        return BASE_OK;
    default:
        (void)answer(session, bytes, size);
        return BASE_OK;
    }
}

void gw_session_close(struct gw_session *session)
{
    if (session == NULL) {
        return;
    }
    *session->prev = session->next;
    if (session->next != NULL) {
        session->next->prev = session->prev;
    }
    atomic_fetch_sub(&stub_tunnel_counts.open, 1);
    free(session);
}

void gw_tunnel_worker_drain(struct gw_tunnel_worker *worker, uint32_t reconnect_after_ms,
                            uint32_t spread_ms)
{
    (void)reconnect_after_ms;
    (void)spread_ms;
    for (struct gw_session *session = worker->sessions; session != NULL; session = session->next) {
        (void)answer(session, (const uint8_t *)"drain", 5);
    }
}

void gw_tunnel_worker_flush(struct gw_tunnel_worker *worker)
{
    (void)worker;
    atomic_fetch_add(&stub_tunnel_counts.flushes, 1);
}
