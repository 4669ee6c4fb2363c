// Reads listen.hosts and compares authorities with it. Made by the main thread at start and on
// reload, asked by the workers for every request whose authority they have not just seen.
// stream_head.c asks. A list is not changed once it is shared, and counted: a worker that still has
// the old one after a reload goes on with it. At most GW_HOSTS_MAX names.
#include "http/guard/host_list.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct name {
    char text[GW_HOST_NAME_MAX + 1]; // lower case
    uint8_t size;
    bool below; // the names one level below it, not itself
};

struct gw_host_list {
    _Atomic uint32_t refs;
    bool any;
    uint32_t count;
    struct name names[GW_HOSTS_MAX];
};

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool is_name(struct base_str text)
{
    if (text.size == 0 || text.size > GW_HOST_NAME_MAX || text.data[0] == '.') {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        char c = lower(text.data[i]);
        bool known = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
        if (!known && c != '.') {
            return false;
        }
    }
    return true;
}

enum base_status gw_host_list_add(struct gw_host_list *list, struct base_str name)
{
    bool below = base_str_starts(name, BASE_STR("*."));
    if (base_str_equal(name, BASE_STR("*"))) {
        list->any = true;
        return BASE_OK;
    }
    if (below) {
        name = (struct base_str){name.data + 2, name.size - 2};
    }
    if (!is_name(name)) {
        return BASE_ERR_INVALID;
    }
    if (list->count == GW_HOSTS_MAX) {
        return BASE_ERR_LIMIT;
    }
    struct name *to = &list->names[list->count++];
    for (size_t i = 0; i < name.size; i++) {
        to->text[i] = lower(name.data[i]);
    }
    to->size = (uint8_t)name.size;
    to->below = below;
    return BASE_OK;
}

static bool is_gap(char c)
{
    return c == ' ' || c == '\t' || c == ',';
}

static enum base_status add_all(struct gw_host_list *list, const char *text,
                                struct base_error *error)
{
    for (const char *at = text; *at != '\0';) {
        size_t size = 0;
        while (at[size] != '\0' && !is_gap(at[size])) {
            size++;
        }
        enum base_status status =
            size > 0 ? gw_host_list_add(list, (struct base_str){at, size}) : BASE_OK;
        if (status == BASE_ERR_LIMIT) {
            return base_error_set(error, status, "listen.hosts: more than %u names", GW_HOSTS_MAX);
        }
        if (status != BASE_OK) {
            return base_error_set(error, status, "listen.hosts: '%.*s' is not a name",
                                  size < 60 ? (int)size : 60, at);
        }
        at += size + (at[size] != '\0' ? 1 : 0);
    }
    return BASE_OK;
}

enum base_status gw_host_list_new(const char *text, struct gw_host_list **out_list,
                                  struct base_error *error)
{
    struct gw_host_list *list = calloc(1, sizeof(*list));
    if (list == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for listen.hosts");
    }
    atomic_init(&list->refs, 1);
    enum base_status status = add_all(list, text, error);
    if (status != BASE_OK) {
        free(list);
        return status;
    }
    *out_list = list;
    return BASE_OK;
}

struct gw_host_list *gw_host_list_ref(struct gw_host_list *list)
{
    (void)atomic_fetch_add_explicit(&list->refs, 1, memory_order_relaxed);
    return list;
}

void gw_host_list_unref(struct gw_host_list *list)
{
    if (list != NULL && atomic_fetch_sub_explicit(&list->refs, 1, memory_order_acq_rel) == 1) {
        free(list);
    }
}

// ---- Authorities

static bool is_address(struct base_str host)
{
    char text[INET6_ADDRSTRLEN];
    unsigned char address[16];
    bool v6 = host.size >= 2 && host.data[0] == '[' && host.data[host.size - 1] == ']';
    if (v6) {
        host = (struct base_str){host.data + 1, host.size - 2};
    }
    if (host.size == 0 || host.size >= sizeof(text) || memchr(host.data, 0, host.size) != NULL) {
        return false;
    }
    memcpy(text, host.data, host.size);
    text[host.size] = '\0';
    return inet_pton(v6 ? AF_INET6 : AF_INET, text, address) == 1;
}

static bool same(struct base_str host, const char *text, size_t size)
{
    if (host.size != size) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (lower(host.data[i]) != text[i]) {
            return false;
        }
    }
    return true;
}

// The part behind the first label; empty: there is one label.
static struct base_str parent_of(struct base_str host)
{
    const char *dot = memchr(host.data, '.', host.size);
    size_t at = dot != NULL ? (size_t)(dot - host.data) + 1 : host.size;
    return (struct base_str){host.data + at, host.size - at};
}

static bool is_localhost(struct base_str host)
{
    static const char name[] = "localhost";
    size_t size = sizeof(name) - 1;
    if (host.size > size + 1 && host.data[host.size - size - 1] == '.' && is_name(host)) {
        host = (struct base_str){host.data + host.size - size, size};
    }
    return same(host, name, size);
}

// Host without port and final dot. False: what is behind the host is no port.
static bool split(struct base_str authority, struct base_str *out_host)
{
    size_t size = 0;
    bool v6 = authority.size > 0 && authority.data[0] == '[';
    while (size < authority.size && authority.data[size] != (v6 ? ']' : ':')) {
        size++;
    }
    size += v6 && size < authority.size ? 1 : 0;
    *out_host = (struct base_str){authority.data, size};
    if (size > 1 && !v6 && authority.data[size - 1] == '.') {
        out_host->size--;
    }
    if (size == authority.size) {
        return size > 0;
    }
    for (size_t i = size + 1; i < authority.size; i++) {
        if (authority.data[i] < '0' || authority.data[i] > '9') {
            return false;
        }
    }
    return size > 0 && authority.data[size] == ':' && authority.size - size <= 6;
}

bool gw_host_list_allows(const struct gw_host_list *list, struct base_str authority)
{
    struct base_str host;
    if (list->any) {
        return true;
    }
    if (!split(authority, &host)) {
        return false;
    }
    if (is_localhost(host) || is_address(host)) {
        return true;
    }
    struct base_str parent = parent_of(host);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct name *name = &list->names[i];
        if (same(name->below ? parent : host, name->text, name->size)) {
            return true;
        }
    }
    return false;
}
