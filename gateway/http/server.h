// The gateway process: listeners, workers, certificates, reload and drain, over one core. Used by
// the main thread alone (walle-gateway, tests); workers run on threads of their own.
//
// Lifetimes: gw_core > gw_server > workers. The core outlives the server.
#ifndef GW_HTTP_SERVER_H
#define GW_HTTP_SERVER_H

#include "base/error.h"
#include "base/log.h"
#include "http/config/http_config.h"
#include "svc/core.h"

struct gw_tunnel;
struct gw_server;

struct gw_server_options {
    const char *dir;                     // certificates and the ticket key lie here by default
    const struct gw_http_config *config; // copied
    struct gw_core *core;
    struct gw_tunnel *tunnel; // of the tunnel, outlives the server; NULL: there is none
    const struct base_log *log;
};

// Binds, makes what is missing in `dir`, starts the workers. The error names what and where.
BASE_NODISCARD enum base_status gw_server_new(const struct gw_server_options *options,
                                              struct gw_server **out_server,
                                              struct base_error *error);
// Would these settings be taken, the files that they name and those of the server that lie in
// `dir`, which need not be there? Nothing is made or bound. INVALID, DENIED, IO.
BASE_NODISCARD enum base_status
gw_server_check(const char *dir, const struct gw_http_config *config, struct base_error *error);
// Is nobody listening where these settings listen? The error begins with the setting's name. IO.
BASE_NODISCARD enum base_status gw_server_ports_free(const struct gw_http_config *config,
                                                     struct base_error *error);
// Bound addresses, e.g. "127.0.0.1:8443"; "" when that listener is off.
const char *gw_server_tls_address(const struct gw_server *server);
const char *gw_server_h2c_address(const struct gw_server *server);
// Takes over certificates and what a reload may change. On error everything stays as it was.
BASE_NODISCARD enum base_status gw_server_reload(struct gw_server *server,
                                                 const struct gw_http_config *config,
                                                 struct base_error *error);
// Makes new ticket keys and a new development certificate where they are due; now and then, on the
// main thread. What fails is logged, and things stay as they are.
void gw_server_upkeep(struct gw_server *server);
// Begins the drain: open streams may finish within `drain_ms`. May be called again with less.
void gw_server_stop(struct gw_server *server, uint64_t drain_ms);
// Readable when every worker has stopped: for poll().
int gw_server_stopped_fd(const struct gw_server *server);
// Stops at once if that was not done, waits for the workers, frees. Accepts NULL.
void gw_server_free(struct gw_server *server);

#endif
