/* tf.h's rank files on the built-in packs, from the plan to the bytes of every rank. */
#include "engine/base/io.h"
#include "engine/pack/pack.h"
#include "engine/plan/plan.h"
#include "engine/plan/rankfile.h"
#include "engine/tf.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    tf_pack *pack;
    tf_plan *plan[TF_WORLD_MAX];
    uint32_t world;
    char dir[256];
} scene;

static bool set_up(check_case *t, scene *s, const char *name, uint32_t world) {
    tf_error err = {0};
    char line[2048];
    memset(s, 0, sizeof *s);
    s->world = world;
    snprintf(s->dir, sizeof s->dir, "%s", check_tmpdir(t));
    bool ok = tf_pack_open(name, s->dir, &s->pack, &err) == TF_OK;
    for (uint32_t r = 0; ok && r < world; r++) {
        tf_split split = {.world = world, .rank = r};
        ok = tf_plan_make(s->pack, &split, &s->plan[r], &err) == TF_OK;
    }
    return CHECKF(t, ok, "%s", tf_error_line(&err, line, sizeof line));
}

static void tear_down(scene *s) {
    for (uint32_t r = 0; r < s->world; r++)
        tf_plan_close(s->plan[r]);
    tf_pack_close(s->pack);
}

static void check_rank(check_case *t, const scene *s, uint32_t rank) {
    tf_error err = {0};
    tf_digest written, computed;
    char path[512], hex[DIGEST_HEX], *stored = NULL;
    size_t n = 0;
    tf_text text = {0};
    CHECK_U64(t, tf_rank_write(s->plan[rank], s->dir, NULL, &written, &err), TF_OK);
    tf_rank_options one = {.workers = 1};
    CHECK_U64(t, tf_rank_text(s->plan[rank], &one, &text, &computed, &err), TF_OK);
    CHECK(t, digest_equal(written, computed));
    CHECK(t, strstr(text_str(&text), digest_hex(written, hex)) != NULL);
    snprintf(path, sizeof path, "%s/rank%u/set.txt", s->dir, rank);
    if (CHECK_U64(t, io_read_file(path, 1u << 20, &stored, &n, &err), TF_OK))
        CHECK_STR(t, stored, text_str(&text));
    mem_free(stored);
    text_free(&text);
}

static void writes_and_verifies_every_rank(check_case *t) {
    static const char *const packs[] = {"tiny-bf16", "tiny-exl3"};
    static const uint32_t worlds[] = {1, 2, 3, 4};
    for (size_t i = 0; i < COUNT(packs) * COUNT(worlds); i++) {
        scene s;
        tf_error err = {0};
        tf_text report = {0};
        char line[2048];
        if (!set_up(t, &s, packs[i % 2], worlds[i / 2])) return;
        for (uint32_t r = 0; r < s.world; r++)
            check_rank(t, &s, r);
        for (uint32_t r = 0; r < s.world; r++) {
            bool ok = tf_rank_verify(s.dir, s.plan[r], TF_VERIFY_FULL, false, NULL, &report,
                                     &err) == TF_OK;
            CHECKF(t, ok, "%s", tf_error_line(&err, line, sizeof line));
        }
        text_free(&report);
        tear_down(&s);
    }
}

/* Reads the item's payload from the rank's file into to; false when it is not as planned. */
static bool read_back(check_case *t, const scene *s, uint32_t rank, const plan_item *item,
                      uint8_t *to) {
    char name[RANKFILE_NAME_SIZE], path[512];
    tf_error err = {0};
    rankfile *file = NULL;
    rankfile_head want = rankfile_want(s->plan[rank], item->layer);
    rankfile_name(item->layer, name);
    snprintf(path, sizeof path, "%s/rank%u/%s", s->dir, rank, name);
    if (!CHECK_U64(t, rankfile_open(path, &want, &file, &err), TF_OK)) return false;
    const rankfile_entry *e = rankfile_find(file, item->image);
    bool ok = CHECK(t, e != NULL && e->bytes == item->bytes) &&
              CHECK_U64(t, rankfile_read(file, e, 0, to, (size_t)item->bytes, &err), TF_OK);
    rankfile_close(file);
    return ok;
}

/* A tensor split by rows, joined over the ranks, is the stored tensor; REPORTS 1 and 2: the sink of
 * a rank is its own, and not rank 0's. */
static bool check_joined(check_case *t, const scene *s, const plan_item *first) {
    const pack_tensor *tensor = first->tensor;
    tf_error err = {0};
    uint8_t *joined = malloc(tensor->bytes), *stored = malloc(tensor->bytes);
    uint64_t at = 0;
    for (uint32_t r = 0; r < s->world; r++) {
        const plan_item *item = plan_find(s->plan[r], first->image);
        if (!CHECK(t, item != NULL && item->bytes <= tensor->bytes - at)) break;
        if (!read_back(t, s, r, item, joined + at)) break;
        at += item->bytes;
    }
    CHECK_U64(t, at, tensor->bytes);
    CHECK_U64(t, pack_read(s->pack, tensor, 0, stored, (size_t)tensor->bytes, &err), TF_OK);
    bool same = CHECKF(t, memcmp(joined, stored, (size_t)tensor->bytes) == 0, "%s", tensor->name);
    free(joined);
    free(stored);
    return same;
}

/* One run of bytes, so that parts in rank order make up the whole. */
static bool is_row_split(const plan_item *item) {
    return item->unit != UNIT_NONE && item->axis != AXIS_PICK && item->span_count == 1 &&
           item->spans[0].count == 1 && item->bytes < item->tensor->bytes;
}

static void ranks_join_to_the_stored_tensor(check_case *t) {
    scene s;
    tf_error err = {0};
    uint32_t joined = 0, sinks = 0;
    if (!set_up(t, &s, "tiny-bf16", 3)) return;
    for (uint32_t r = 0; r < s.world; r++)
        CHECK_U64(t, tf_rank_write(s.plan[r], s.dir, NULL, NULL, &err), TF_OK);
    for (uint32_t i = 0; i < s.plan[0]->item_count; i++) {
        const plan_item *item = &s.plan[0]->items[i];
        if (!is_row_split(item)) continue;
        if (!check_joined(t, &s, item)) break;
        joined++;
        sinks += strstr(item->image, "attn_sink") != NULL;
    }
    CHECK(t, joined > 20);
    CHECK(t, sinks >= 4);
    tear_down(&s);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"rankfile/writes-and-verifies-every-rank", writes_and_verifies_every_rank},
        {"rankfile/ranks-join-to-the-stored-tensor", ranks_join_to_the_stored_tensor},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
