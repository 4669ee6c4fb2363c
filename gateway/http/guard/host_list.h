// The names this gateway answers to. A page of somebody else's can point its own name at this
// machine (DNS rebinding) and so reach it from a browser; what it asks then carries that name, and
// is refused. An address is always good: it is no name that somebody could point elsewhere; so are
// localhost and the names below it.
//
// Immutable once it is shared; counted, because every worker holds it. Any thread.
#ifndef GW_HOST_LIST_H
#define GW_HOST_LIST_H

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>

#define GW_HOSTS_MAX     64u  // names of listen.hosts and of the certificate
#define GW_HOST_NAME_MAX 253u // RFC 1035, 2.3.4, as text

struct gw_host_list;

// From the text of listen.hosts: names with blanks or commas between them, "*.NAME" for the names
// one level below, "*" for any. NOMEM, LIMIT, INVALID with the one that is wrong.
BASE_NODISCARD enum base_status gw_host_list_new(const char *text, struct gw_host_list **out_list,
                                                 struct base_error *error);
// Before it is shared: one more name. INVALID, LIMIT.
BASE_NODISCARD enum base_status gw_host_list_add(struct gw_host_list *list, struct base_str name);
struct gw_host_list *gw_host_list_ref(struct gw_host_list *list);
void gw_host_list_unref(struct gw_host_list *list); // accepts NULL
// May a request be for this authority, "HOST" or "HOST:PORT"?
bool gw_host_list_allows(const struct gw_host_list *list, struct base_str authority);

#endif
