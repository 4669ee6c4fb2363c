// The resources of /api/v1: one row each, and all that the program knows of them. From it come the
// table that api.c looks a request up in, the handlers' declarations, and what tests walk. To add
// one is a row here and its two functions (docs/HACKING.md).
//
// X(method, path behind /api/v1/ with * for a name, least role, what it is about, prepare, work,
// flags)
//
// A subject other than NOTHING and ROLLOUT_ASKED on a PUT or POST makes it a change: the audit log
// keeps it, and a key for repeating is honoured.
#ifndef GW_API_ROUTES_H
#define GW_API_ROUTES_H

#define GW_API_BACKGROUND 1u // `work` is for the background thread
#define GW_API_UPLOAD     2u // its body may be as large as limits.upload_bytes

// clang-format off
#define GW_API_ROUTE_MAP(X) \
    X(PUT, "blobs/*", RELEASER, BLOB, gw_api_blob_prepare, gw_api_blob_put, GW_API_UPLOAD) \
    X(PUT, "exclusive", RELEASER, BLOBS, gw_api_no_query, gw_api_exclusive_pack, GW_API_UPLOAD) \
    X(PUT, "exclusive/*", RELEASER, BLOB, gw_api_blob_prepare, gw_api_exclusive_put, GW_API_UPLOAD) \
    X(GET, "exclusive/*", RELEASER, BLOB, gw_api_blob_prepare, gw_api_exclusive_get, 0) \
    X(POST, "tasks", RELEASER, TASK_NEW, gw_api_task_prepare, gw_api_task_create, 0) \
    X(GET, "tasks", VIEWER, NOTHING, gw_api_paging_id, gw_api_task_list, 0) \
    X(GET, "tasks/*", VIEWER, TASK, gw_api_task_get_prepare, gw_api_task_get, 0) \
    X(POST, "tasks/*/versions", RELEASER, VERSION_NEW, gw_api_version_prepare, gw_api_version_add, 0) \
    X(GET, "tasks/*/versions", VIEWER, TASK, gw_api_version_page, gw_api_version_list, 0) \
    X(GET, "tasks/*/versions/*", VIEWER, TASK, gw_api_version_path, gw_api_version_get, 0) \
    X(POST, "rollouts", RELEASER, ROLLOUT_NEW, gw_api_rollout_prepare, gw_api_rollout_create, 0) \
    X(POST, "rollouts/check", RELEASER, NOTHING, gw_api_rollout_prepare, gw_api_rollout_check, 0) \
    X(POST, "rollouts/preview", VIEWER, NOTHING, gw_api_preview_prepare, gw_api_preview, GW_API_BACKGROUND) \
    X(POST, "rollouts/cost", VIEWER, NOTHING, gw_api_cost_prepare, gw_api_cost, 0) \
    X(GET, "rollouts", VIEWER, NOTHING, gw_api_rollout_list_prepare, gw_api_rollout_list, 0) \
    X(GET, "rollouts/*", VIEWER, ROLLOUT, gw_api_path_id, gw_api_rollout_get, 0) \
    X(GET, "rollouts/*/log", VIEWER, ROLLOUT, gw_api_log_prepare, gw_api_rollout_log, 0) \
    X(POST, "rollouts/*/simulation", RELEASER, ROLLOUT, gw_api_simulation_prepare, gw_api_rollout_simulation, 0) \
    X(POST, "rollouts/*/start", RELEASER, ROLLOUT, gw_api_command_prepare, gw_api_rollout_command, 0) \
    X(POST, "rollouts/*/check", RELEASER, ROLLOUT_ASKED, gw_api_start_check_prepare, gw_api_start_check, 0) \
    X(POST, "rollouts/*/pause", RELEASER, ROLLOUT, gw_api_command_prepare, gw_api_rollout_command, 0) \
    X(POST, "rollouts/*/resume", RELEASER, ROLLOUT, gw_api_command_prepare, gw_api_rollout_command, 0) \
    X(POST, "rollouts/*/promote", RELEASER, ROLLOUT, gw_api_command_prepare, gw_api_rollout_command, 0) \
    X(POST, "rollouts/*/abort", RELEASER, ROLLOUT, gw_api_command_prepare, gw_api_rollout_command, 0) \
    X(POST, "rollouts/*/approve", APPROVER, ROLLOUT, gw_api_command_prepare, gw_api_rollout_command, 0) \
    X(POST, "rollouts/*/undo", RELEASER, ROLLOUT, gw_api_command_prepare, gw_api_rollout_command, 0) \
    X(POST, "rollouts/*/lift", RELEASER, ROLLOUT, gw_api_lift_prepare, gw_api_rollout_lift, 0) \
    X(POST, "rollouts/*/kill", RELEASER, ROLLOUT, gw_api_command_prepare, gw_api_rollout_command, 0) \
    X(GET, "tunnel", VIEWER, NOTHING, gw_api_tunnel_prepare, gw_api_tunnel, GW_API_BACKGROUND) \
    X(GET, "tunnel/records", VIEWER, NOTHING, gw_api_records_prepare, gw_api_records, GW_API_BACKGROUND) \
    X(GET, "trust", VIEWER, NOTHING, gw_api_trust_prepare, gw_api_trust_get, 0) \
    X(PUT, "trust/root", ADMIN, GATEWAY, gw_api_root_prepare, gw_api_root_put, 0) \
    X(GET, "kills", VIEWER, NOTHING, gw_api_version_page, gw_api_kills_get, 0) \
    X(POST, "kills", ADMIN, KILL, gw_api_kill_prepare, gw_api_kill, 0) \
    X(POST, "kills/*/lift", ADMIN, KILL, gw_api_unkill_prepare, gw_api_unkill, 0) \
    X(GET, "clock", VIEWER, NOTHING, gw_api_no_query, gw_api_clock_get, 0) \
    X(POST, "clock/accept", ADMIN, GATEWAY, gw_api_clock_prepare, gw_api_clock_accept, 0) \
    X(GET, "devices", VIEWER, NOTHING, gw_api_paging_id, gw_api_device_list, 0) \
    X(GET, "devices/count", VIEWER, NOTHING, gw_api_device_count_prepare, gw_api_device_count, GW_API_BACKGROUND) \
    X(GET, "devices/*", VIEWER, DEVICE, gw_api_path_id, gw_api_device_get, 0) \
    X(GET, "devices/*/why", VIEWER, DEVICE, gw_api_why_prepare, gw_api_device_why, 0) \
    X(PUT, "devices/*/user", RELEASER, DEVICE, gw_api_user_prepare, gw_api_device_user, 0) \
    X(POST, "devices/*/revoke", ADMIN, DEVICE, gw_api_path_id, gw_api_device_revoke, 0) \
    X(POST, "devices/*/reset", ADMIN, DEVICE, gw_api_path_id, gw_api_device_reset, 0) \
    X(POST, "tokens", ADMIN, TOKEN, gw_api_token_prepare, gw_api_token_create, 0) \
    X(GET, "tokens", ADMIN, NOTHING, gw_api_paging_id, gw_api_token_list, 0) \
    X(GET, "tokens/*", ADMIN, TOKEN, gw_api_path_id, gw_api_token_get, 0) \
    X(POST, "tokens/*/revoke", ADMIN, TOKEN, gw_api_path_id, gw_api_token_revoke, 0) \
    X(POST, "tenants", ADMIN, TENANT_NEW, gw_api_tenant_prepare, gw_api_tenant_create, 0) \
    X(GET, "tenants", VIEWER, NOTHING, gw_api_no_query, gw_api_tenant_list, 0) \
    X(GET, "whoami", VIEWER, NOTHING, gw_api_no_query, gw_api_whoami, 0) \
    X(POST, "console/code", VIEWER, NOTHING, gw_api_no_query, gw_api_console_code, 0) \
    X(POST, "console/session", VIEWER, NOTHING, gw_api_no_query, gw_api_console_session, 0) \
    X(GET, "audit", ADMIN, NOTHING, gw_api_audit_prepare, gw_api_audit_list, 0) \
    X(GET, "openapi.json", VIEWER, NOTHING, gw_api_no_query, gw_api_openapi, 0)
// clang-format on

#endif
