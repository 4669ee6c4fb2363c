// The repository of models on disk:
//
//     DIR/MODEL/VERSION/model.onnx    VERSION a number from 1
//     DIR/MODEL/VERSION/warmup.json   a call that it runs when it is loaded; may be missing
//     DIR/MODEL/model.conf            how it is served (infer_settings.h); may be missing
//
// Names come from callers, so one that is not a plain name is refused before the disk is asked, and
// no link is followed below DIR. Entries that are no folders, or have a dot in front, are left
// alone. No state; any thread.
#ifndef GW_INFER_REPOSITORY_H
#define GW_INFER_REPOSITORY_H

#include "base/arena.h"
#include "engine/engine.h"
#include "infer/infer_settings.h"

struct gw_infer_shelf;

#define GW_INFER_MODELS_MAX       256u
#define GW_INFER_FILE_MAX         ((size_t)4 << 30) // of one model.onnx
#define GW_INFER_FOLDER_MAX       4096u             // entries of a folder that are looked at
#define GW_INFER_VERSION_TEXT     24u
#define GW_INFER_WARMUP_FILE      "warmup.json"
#define GW_INFER_WARMUP_BYTES_MAX ((size_t)4 << 20) // of warmup.json

struct gw_infer_names {
    uint32_t count;
    // In the order of the alphabet. One that no model can have is here to be told of: what is not
    // plain is '?', and so is the last of one that is too long.
    char names[GW_INFER_MODELS_MAX][GW_INFER_MODEL_NAME_MAX + 1];
};

// A model as its folder says.
struct gw_infer_found {
    char name[GW_INFER_MODEL_NAME_MAX + 1];
    struct gw_infer_settings settings;
    uint64_t versions[GW_INFER_VERSIONS_MAX]; // the highest first
    uint32_t version_count;                   // to be served, at least 1
    uint32_t known_count; // `latest`: and what may take its place, when it does not load
};

// Where a version comes from.
struct gw_infer_source {
    const struct gw_infer_found *found;
    uint64_t number;
    const struct gw_infer_shelf *shelf; // (infer_shelf.h); NULL: the disk
};

// All models there are. NOT_FOUND, INVALID, IO: DIR; LIMIT: more than GW_INFER_MODELS_MAX.
BASE_NODISCARD enum base_status
gw_infer_repository_list(const char *dir, struct gw_infer_names *out, struct base_error *error);
// Is there a folder of this name, which is a model's then, whether or not it can be loaded?
bool gw_infer_repository_has(const char *dir, const char *name);
// NOT_FOUND: no such model, or no version that it wants served; INVALID: its name or its settings,
// something that is no folder; LIMIT: too many versions; IO.
BASE_NODISCARD enum base_status gw_infer_repository_look(const char *dir, struct base_str name,
                                                         struct gw_infer_found *out,
                                                         struct base_error *error);
// Loads the file of one version, and its external data, into memory: nobody needs the files again.
// NOT_FOUND, INVALID, TOO_LARGE, and what the engine says of it; the
// text begins with MODEL/VERSION.
BASE_NODISCARD enum base_status
gw_infer_repository_load(const char *dir, const struct gw_infer_found *found, uint64_t version,
                         struct eng_model **out_model, struct base_error *error);
// The call that the version's folder has (infer_warm.h), in the arena. NOT_FOUND: it has none;
// INVALID: no file, or a link; TOO_LARGE; IO; NOMEM.
BASE_NODISCARD enum base_status gw_infer_repository_warmup(const char *dir,
                                                           const struct gw_infer_source *source,
                                                           struct base_arena *arena,
                                                           struct base_str *out,
                                                           struct base_error *error);

#endif
