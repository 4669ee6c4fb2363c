// What `walle-engine train` keeps in files besides the weights (engine_train_keep.c).
#ifndef ENG_CLI_ENGINE_TRAIN_KEEP_H
#define ENG_CLI_ENGINE_TRAIN_KEEP_H

#include "engine/train.h"

// Goes on from a checkpoint, when there is one; *out_steps (0: there is none) is how many it has
// done. The codes of eng_trainer_state_read; IO.
BASE_NODISCARD enum base_status eng_cli_checkpoint_read(struct eng_trainer *trainer,
                                                        const char *path, uint64_t *out_steps,
                                                        struct base_error *error);
// The file is whole, or as it was. IO, FULL, NOMEM.
BASE_NODISCARD enum base_status eng_cli_checkpoint_write(const struct eng_trainer *trainer,
                                                         const char *path,
                                                         struct base_error *error);
// Whether a file of this name is written as a model.
bool eng_cli_is_model(const char *path);
// The model of `model_path` with the trained weights. The codes of eng_trainer_export; IO, FULL.
BASE_NODISCARD enum base_status eng_cli_export(const struct eng_trainer *trainer,
                                               const char *model_path, const char *path,
                                               struct base_error *error);

#endif
