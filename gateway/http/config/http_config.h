// Every setting and every limit of the gateway in one table: name, range, default, whether a reload
// may change it, and what it is for. The file conf/gateway.conf shows each row with its default; a
// test compares the two.
//
// File format: lines `key = value`; '#' starts a comment at the start of a line or after a blank;
// a later line wins over an earlier one only by being an error (each key once).
#ifndef GW_HTTP_CONFIG_H
#define GW_HTTP_CONFIG_H

#include "base/error.h"
#include "base/str.h"
#include "http/config/http_limits.h"
#include "http/guard/proxy_shares.h"
#include "svc/core.h"

#include <stddef.h>
#include <stdint.h>

#define GW_CONFIG_TEXT_MAX 512
#define GW_CONFIG_FILE_MAX (256 * 1024)
#define GW_CONFIG_ROWS_MAX 128

struct gw_proxy_config {
    uint64_t connections;                          // per worker
    uint64_t waiting;                              // requests waiting for a connection, per worker
    struct gw_share_limits shares[GW_SHARE_COUNT]; // of both
    uint64_t connect_ms;
    uint64_t reply_ms;
    uint64_t total_ms;
    uint64_t body_bytes;
    uint64_t client_rate_bytes;
};

struct gw_http_config {
    char listen_tls[GW_CONFIG_TEXT_MAX]; // "ADDR:PORT", "" or "none": not at all
    char listen_h2c[GW_CONFIG_TEXT_MAX];
    char proxy_protocol[GW_CONFIG_TEXT_MAX]; // "on" or "off"
    char proxy_from[GW_CONFIG_TEXT_MAX];     // addresses
    char trusted_hops[GW_CONFIG_TEXT_MAX];
    char hosts[GW_CONFIG_TEXT_MAX];
    uint64_t workers;                     // 0: one per core
    char certificate[GW_CONFIG_TEXT_MAX]; // "": DIR/cert.pem, made when absent
    char key[GW_CONFIG_TEXT_MAX];
    char client_ca[GW_CONFIG_TEXT_MAX];
    uint64_t tls_early_data_bytes;
    uint64_t tls_ticket_key_s;
    char upstream[GW_CONFIG_TEXT_MAX]; // "http://HOST:PORT", "": none
    char log_level[GW_CONFIG_TEXT_MAX];
    char admin_token_file[GW_CONFIG_TEXT_MAX];
    char metrics_access[GW_CONFIG_TEXT_MAX];
    char ddi_token_file[GW_CONFIG_TEXT_MAX];
    char infer_models[GW_CONFIG_TEXT_MAX];  // "": no inference service
    char infer_control[GW_CONFIG_TEXT_MAX]; // "all" or "explicit"
    char infer_access[GW_CONFIG_TEXT_MAX];  // as metrics_access
    uint64_t infer_threads;
    uint64_t infer_session_bytes;
    uint64_t infer_idle_bytes;
    uint64_t infer_device_calls_per_min;
    uint64_t infer_device_bytes_per_min;
    uint64_t infer_tenant_calls;
    uint64_t infer_tenant_bytes;
    uint64_t map_bytes_max;
    uint64_t commit_delay_us;
    uint64_t tunnel_commit_delay_us;
    uint64_t tunnel_segment_bytes;
    uint64_t tunnel_retain_bytes;
    uint64_t tunnel_unproven_percent;
    uint64_t disk_keep_free_bytes;
    uint64_t tunnel_credit_bytes;
    uint64_t tunnel_memory_bytes;
    uint64_t tunnel_thin_percent;
    uint64_t tunnel_device_batches_per_s;
    char tunnel_unknown_uploads[GW_CONFIG_TEXT_MAX];
    uint64_t tick_ms;
    char evidence_keys[GW_CONFIG_TEXT_MAX];
    char task_leaves[GW_CONFIG_TEXT_MAX];
    uint64_t checkin_interval_s;
    uint64_t timestamp_life_s;
    uint64_t lease_s;
    uint64_t hint_spread_ms;
    uint64_t hint_rate_per_s;
    uint64_t retry_after_s;
    char device_auth[GW_CONFIG_TEXT_MAX];
    uint64_t enroll_rate_per_s;
    uint64_t overload_memory_bytes; // 0: from the machine's memory
    uint64_t overload_socket_bytes;
    uint64_t unproven_records;
    uint64_t unproven_per_address;
    uint64_t unproven_expire_s;
    struct gw_proxy_config proxy;
    struct gw_limits limits;
    uint32_t lines[GW_CONFIG_ROWS_MAX]; // where the file sets each row; 0: it does not
};

enum gw_config_kind { GW_CONFIG_NUMBER, GW_CONFIG_TEXT, GW_CONFIG_KIND_COUNT };

struct gw_config_row {
    const char *name;
    enum gw_config_kind kind;
    size_t offset; // in gw_http_config
    uint64_t min;
    uint64_t max;
    uint64_t number;  // default of a number
    const char *text; // default of a text
    bool reloadable;
    const char *help;
};

// The line of the file that has set what `name` now is. 0: it is no setting, or set elsewhere.
uint32_t gw_http_config_line(const struct gw_http_config *config, struct base_str name);
// The table; *out_count rows. Static.
const struct gw_config_row *gw_http_config_rows(size_t *out_count);
void gw_http_config_defaults(struct gw_http_config *config);
// One setting; used by the file and by the command line. INVALID with the exact reason, without a
// position.
BASE_NODISCARD enum base_status gw_http_config_set(struct gw_http_config *config,
                                                   struct base_str name, struct base_str value,
                                                   struct base_error *error);
// A whole file's text over what `config` holds. INVALID with line and reason; `config` is then
// partly changed: parse into a copy.
BASE_NODISCARD enum base_status
gw_http_config_parse(struct gw_http_config *config, struct base_str text, struct base_error *error);
// Reads and parses `path`. IO, TOO_LARGE, INVALID.
BASE_NODISCARD enum base_status gw_http_config_load(struct gw_http_config *config, const char *path,
                                                    struct base_error *error);
// What a setting of who may ask without a token says. INVALID: none of these words.
BASE_NODISCARD enum base_status gw_http_config_access(const char *name, const char *text,
                                                      enum gw_metrics_access *out,
                                                      struct base_error *error);
// INVALID: infer.control is none of its words.
BASE_NODISCARD enum base_status gw_http_config_control(const struct gw_http_config *config,
                                                       struct base_error *error);
// Name of the first setting that differs and that a reload cannot change; NULL: none.
const char *gw_http_config_fixed_change(const struct gw_http_config *a,
                                        const struct gw_http_config *b);

#endif
