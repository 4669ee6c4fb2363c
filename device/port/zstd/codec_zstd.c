// The tunnel's compression on zstd; bounds are in codec_zstd.h. Made by posix_pipeline.c, the
// simulator (sim_codec.c) and the benchmarks; called by the tunnel on the runtime's thread alone.
// The context is made at the first use and kept, and of the dictionaries only those last used are
// digested, the others wait as bytes: that is what holds memory to the figures of docs/PIPELINE.md.
// A dictionary that is listed again under the same content keeps its digest.
#include "zstd/codec_zstd.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

struct dict {
    uint32_t id;
    uint32_t size;
    bool listed;       // offered; false: kept only until the next _add of other content
    uint64_t used;     // when, in compressions
    ZSTD_CDict *ready; // NULL: bytes alone
    uint8_t *bytes;
};

struct dev_codec {
    int level;
    uint64_t clock; // compressions so far
    ZSTD_CCtx *context;
    uint32_t count;
    struct dict dicts[WIRE_TUNNEL_DICTS_MAX]; // oldest first
};

enum base_status dev_codec_new(int level, struct dev_codec **out_codec)
{
    if (level < 0 || level > DEV_CODEC_LEVEL_MAX) {
        return BASE_ERR_INVALID;
    }
    struct dev_codec *codec = calloc(1, sizeof(*codec));
    if (codec == NULL) {
        return BASE_ERR_NOMEM;
    }
    codec->level = level == 0 ? DEV_CODEC_LEVEL : level;
    *out_codec = codec;
    return BASE_OK;
}

static void dict_done(struct dict *dict)
{
    ZSTD_freeCDict(dict->ready);
    free(dict->bytes);
    *dict = (struct dict){0};
}

void dev_codec_free(struct dev_codec *codec)
{
    if (codec == NULL) {
        return;
    }
    for (uint32_t i = 0; i < codec->count; i++) {
        dict_done(&codec->dicts[i]);
    }
    ZSTD_freeCCtx(codec->context);
    free(codec);
}

// ---- Dictionaries

static struct dict *dict_find(struct dev_codec *codec, uint32_t id)
{
    for (uint32_t i = 0; i < codec->count; i++) {
        if (codec->dicts[i].id == id) {
            return &codec->dicts[i];
        }
    }
    return NULL;
}

static void dict_remove(struct dev_codec *codec, uint32_t at)
{
    dict_done(&codec->dicts[at]);
    codec->count--;
    memmove(&codec->dicts[at], &codec->dicts[at + 1],
            (codec->count - at) * sizeof(codec->dicts[0]));
    codec->dicts[codec->count] = (struct dict){0};
}

void dev_codec_dicts_begin(struct dev_codec *codec)
{
    for (uint32_t i = 0; i < codec->count; i++) {
        codec->dicts[i].listed = false;
    }
}

// Moves a dictionary that is there to the newest place.
static void dict_renew(struct dev_codec *codec, const struct dict *dict)
{
    struct dict moved = *dict;
    uint32_t at = (uint32_t)(dict - codec->dicts);
    moved.listed = true;
    memmove(&codec->dicts[at], &codec->dicts[at + 1],
            (codec->count - at - 1) * sizeof(codec->dicts[0]));
    codec->dicts[codec->count - 1] = moved;
}

enum base_status dev_codec_dict_add(struct dev_codec *codec, const struct wire_sha256 *digest,
                                    const uint8_t *bytes, size_t size)
{
    uint32_t id = wire_tunnel_dict_id(digest);
    if (id == 0 || !wire_tunnel_dict_ok(bytes, size)) {
        return BASE_ERR_INVALID;
    }
    struct dict *have = dict_find(codec, id);
    if (have != NULL) {
        dict_renew(codec, have);
        return BASE_OK;
    }
    // Those that were not added again since _begin make room.
    for (uint32_t i = codec->count; i > 0; i--) {
        if (!codec->dicts[i - 1].listed) {
            dict_remove(codec, i - 1);
        }
    }
    if (codec->count == WIRE_TUNNEL_DICTS_MAX) {
        return BASE_ERR_LIMIT;
    }
    uint8_t *copy = malloc(size);
    if (copy == NULL) {
        return BASE_ERR_NOMEM;
    }
    memcpy(copy, bytes, size);
    codec->dicts[codec->count++] =
        (struct dict){.id = id, .size = (uint32_t)size, .listed = true, .bytes = copy};
    return BASE_OK;
}

static uint32_t dicts_list(void *ctx, uint32_t out[WIRE_TUNNEL_DICTS_MAX])
{
    const struct dev_codec *codec = ctx;
    uint32_t count = 0;
    for (uint32_t i = codec->count; i > 0; i--) {
        if (codec->dicts[i - 1].listed) {
            out[count++] = codec->dicts[i - 1].id;
        }
    }
    return count;
}

// Gives back the digest that was not used for the longest time when there are too many.
static void make_room(struct dev_codec *codec)
{
    struct dict *oldest = NULL;
    uint32_t ready = 0;
    for (uint32_t i = 0; i < codec->count; i++) {
        struct dict *dict = &codec->dicts[i];
        if (dict->ready != NULL) {
            ready++;
            oldest = oldest == NULL || dict->used < oldest->used ? dict : oldest;
        }
    }
    if (ready >= DEV_CODEC_READY_MAX) {
        ZSTD_freeCDict(oldest->ready);
        oldest->ready = NULL;
    }
}

static enum base_status dict_prepare(struct dev_codec *codec, struct dict *dict)
{
    dict->used = codec->clock;
    if (dict->ready != NULL) {
        return BASE_OK;
    }
    make_room(codec);
    dict->ready = ZSTD_createCDict(dict->bytes, dict->size, codec->level);
    return dict->ready != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

// ---- Compression

static bool context_set(struct dev_codec *codec, const ZSTD_CDict *dict)
{
    if (codec->context == NULL) {
        codec->context = ZSTD_createCCtx();
    }
    ZSTD_CCtx *context = codec->context;
    if (context == NULL) {
        return false;
    }
    // The batch names its dictionary and is hashed: the frame need not say either again.
    return !ZSTD_isError(ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, codec->level)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, DEV_CODEC_WINDOW_LOG)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_dictIDFlag, 0)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 0)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 1)) &&
           !ZSTD_isError(ZSTD_CCtx_refCDict(context, dict));
}

static enum base_status compress(void *ctx, const struct dev_tunnel_compression *what,
                                 size_t *out_size)
{
    struct dev_codec *codec = ctx;
    const ZSTD_CDict *ready = NULL;
    codec->clock++;
    if (what->dict != 0) {
        struct dict *dict = dict_find(codec, what->dict);
        if (dict == NULL || !dict->listed) {
            return BASE_ERR_NOT_FOUND;
        }
        BASE_TRY(dict_prepare(codec, dict));
        ready = dict->ready;
    }
    if (!context_set(codec, ready)) {
        return BASE_ERR_NOMEM;
    }
    size_t wrote =
        ZSTD_compress2(codec->context, what->out, what->capacity, what->in, what->in_size);
    if (ZSTD_isError(wrote)) {
        return ZSTD_getErrorCode(wrote) == ZSTD_error_dstSize_tooSmall ? BASE_ERR_TOO_LARGE
                                                                       : BASE_ERR_NOMEM;
    }
    *out_size = wrote;
    return BASE_OK;
}

struct dev_tunnel_codec dev_codec_port(struct dev_codec *codec)
{
    return (struct dev_tunnel_codec){.ctx = codec, .compress = compress, .dicts = dicts_list};
}

size_t dev_codec_memory(const struct dev_codec *codec)
{
    size_t bytes = codec->context != NULL ? ZSTD_sizeof_CCtx(codec->context) : 0;
    for (uint32_t i = 0; i < codec->count; i++) {
        bytes += codec->dicts[i].size + ZSTD_sizeof_CDict(codec->dicts[i].ready);
    }
    return bytes;
}
