// The shelf of dict_shelf.h: dictionaries made ready for decompressing, by the number that frames
// name. Workers look through gw_tunnel.c and never wait; keeper.c fetches on its thread what they
// asked for, and the operators' API on its background thread what it needs now. One mutex, not held
// while a dictionary is loaded. What is on the shelf stays until the end, so a worker may keep the
// pointer.
#include "tunnel/dict_shelf.h"

#include "tunnel/tunnel_zstd.h"

#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>

struct gw_dict_shelf {
    struct gw_dict_port port;
    pthread_mutex_t lock;
    uint32_t count;
    uint32_t asked_count;
    uint32_t ids[GW_DICTS_MAX];
    struct gw_zstd_dict *dicts[GW_DICTS_MAX];
    uint32_t asked[GW_DICT_ASKED_MAX];
};

enum base_status gw_dict_shelf_new(const struct gw_dict_port *port, struct gw_dict_shelf **out)
{
    struct gw_dict_shelf *shelf = calloc(1, sizeof(*shelf));
    if (shelf == NULL) {
        return BASE_ERR_NOMEM;
    }
    shelf->port = *port;
    pthread_mutex_init(&shelf->lock, NULL);
    *out = shelf;
    return BASE_OK;
}

void gw_dict_shelf_free(struct gw_dict_shelf *shelf)
{
    if (shelf == NULL) {
        return;
    }
    for (uint32_t i = 0; i < shelf->count; i++) {
        gw_zstd_dict_free(shelf->dicts[i]);
    }
    pthread_mutex_destroy(&shelf->lock);
    free(shelf);
}

static bool ask(struct gw_dict_shelf *shelf, uint32_t id)
{
    for (uint32_t i = 0; i < shelf->asked_count; i++) {
        if (shelf->asked[i] == id) {
            return false;
        }
    }
    base_assert(shelf->asked_count <= GW_DICT_ASKED_MAX);
    base_assert(shelf->count <= GW_DICTS_MAX);
    bool room = shelf->port.load != NULL && shelf->asked_count < GW_DICT_ASKED_MAX &&
                shelf->count < GW_DICTS_MAX;
    if (room) {
        shelf->asked[shelf->asked_count++] = id;
    }
    return room;
}

const struct gw_zstd_dict *gw_dict_shelf_find(struct gw_dict_shelf *shelf, uint32_t id,
                                              bool *out_asked)
{
    const struct gw_zstd_dict *found = NULL;
    *out_asked = false;
    pthread_mutex_lock(&shelf->lock);
    for (uint32_t i = 0; i < shelf->count && found == NULL; i++) {
        found = shelf->ids[i] == id ? shelf->dicts[i] : NULL;
    }
    if (found == NULL) {
        *out_asked = ask(shelf, id);
    }
    pthread_mutex_unlock(&shelf->lock);
    return found;
}

static struct gw_zstd_dict *load(const struct gw_dict_shelf *shelf, uint32_t id)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct gw_zstd_dict *dict = NULL;
    if (shelf->port.load(shelf->port.ctx, id, &bytes, &size) == BASE_OK) {
        dict = size <= GW_DICT_BYTES_MAX ? gw_zstd_dict_new(bytes, size) : NULL;
        free(bytes);
    }
    return dict;
}

void gw_dict_shelf_fetch(struct gw_dict_shelf *shelf)
{
    for (;;) {
        pthread_mutex_lock(&shelf->lock);
        bool any = shelf->asked_count > 0;
        uint32_t id = any ? shelf->asked[shelf->asked_count - 1] : 0;
        pthread_mutex_unlock(&shelf->lock);
        if (!any) {
            return;
        }
        struct gw_zstd_dict *dict = load(shelf, id);
        pthread_mutex_lock(&shelf->lock);
        base_assert(shelf->count <= GW_DICTS_MAX && shelf->asked_count <= GW_DICT_ASKED_MAX);
        bool there = false; // two may have fetched it
        for (uint32_t i = 0; i < shelf->count; i++) {
            there = there || shelf->ids[i] == id;
        }
        for (uint32_t i = 0; i < shelf->asked_count; i++) {
            if (shelf->asked[i] == id) {
                shelf->asked[i] = shelf->asked[--shelf->asked_count];
            }
        }
        if (dict != NULL && !there && shelf->count < GW_DICTS_MAX) {
            shelf->ids[shelf->count] = id;
            shelf->dicts[shelf->count++] = dict;
            dict = NULL;
        }
        pthread_mutex_unlock(&shelf->lock);
        gw_zstd_dict_free(dict);
    }
}
