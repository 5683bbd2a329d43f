/* tf.h's rank files. */
#include "engine/pack/exl3.h"
#include "engine/plan/rankfile.h"
#include "engine/tf.h"

#include <assert.h>

static_assert(TF_VERIFY_NONE == (int)RANKFILE_VERIFY_NONE, "one list of modes");
static_assert(TF_VERIFY_SAMPLE == (int)RANKFILE_VERIFY_SAMPLE, "one list of modes");
static_assert(TF_VERIFY_FULL == (int)RANKFILE_VERIFY_FULL, "one list of modes");

static rankfile_options options_of(const tf_rank_options *o) {
    if (o == NULL) return (rankfile_options){0};
    return (rankfile_options){
        .workers = o->workers, .resume = o->resume, .progress = o->progress, .context = o->context};
}

tf_status tf_rank_write(const tf_plan *plan, const char *dir, const tf_rank_options *options,
                        tf_digest *out_digest, tf_error *err) {
    rankfile_options o = options_of(options);
    rankfile_set set = {0};
    tf_status status = exl3_check_markers(plan->pack, o.workers, err);
    if (status == TF_OK) status = rankfile_write_set(plan, dir, &o, &set, err);
    if (out_digest != NULL) *out_digest = set.digest;
    rankfile_set_free(&set);
    return status;
}

tf_status tf_rank_text(const tf_plan *plan, const tf_rank_options *options, tf_text *out,
                       tf_digest *digest, tf_error *err) {
    rankfile_options o = options_of(options);
    rankfile_set set = {0};
    tf_status status = exl3_check_markers(plan->pack, o.workers, err);
    if (status == TF_OK) status = rankfile_digest_set(plan, &o, &set, err);
    if (status == TF_OK) rankfile_set_text(&set, out);
    if (digest != NULL) *digest = set.digest;
    rankfile_set_free(&set);
    return status == TF_OK ? text_done(out, err) : status;
}

tf_status tf_rank_verify(const char *dir, const tf_plan *plan, tf_verify mode, bool json,
                         const tf_rank_options *options, tf_text *report, tf_error *err) {
    rankfile_options o = options_of(options);
    return rankfile_verify_set(dir, plan, (rankfile_verify)mode, json, &o, report, err);
}
