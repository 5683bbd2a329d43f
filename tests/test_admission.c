/* The admission table, row by row, from the specification and not from the table. */
#include "engine/base/limits.h"
#include "engine/plan/admission.h"
#include "tests/support/check.h"

#include <string.h>

static bool is_even_world(uint32_t world) {
    return world == 1 || world == 2 || world == 4 || world == 8;
}

static void worlds_1_2_4_8_are_open_for_everything(check_case *t) {
    const uint32_t even[] = {1, 2, 4, 8};
    for (size_t i = 0; i < COUNT(even); i++) {
        for (int op = 0; op < (int)TF_OP_COUNT; op++) {
            tf_error err = {0};
            CHECKF(t, admission_of((tf_op)op, even[i]) == ADMIT_YES, "%s at %u",
                   admission_op_name((tf_op)op), even[i]);
            CHECK_U64(t, admission_ask((tf_op)op, even[i], false, &err), TF_OK);
        }
    }
}

static void world_3_is_open_for_everything_but_serve(check_case *t) {
    for (int op = 0; op < (int)TF_OP_COUNT; op++) {
        tf_error err = {0};
        bool serves = op == (int)TF_OP_SERVE;
        CHECKF(t, admission_of((tf_op)op, 3) == (serves ? ADMIT_SIGNED : ADMIT_YES), "%s at 3",
               admission_op_name((tf_op)op));
        CHECK_U64(t, admission_ask((tf_op)op, 3, false, &err), serves ? TF_REFUSED : TF_OK);
    }
}

static void serving_three_ranks_needs_a_sign_off(check_case *t) {
    tf_error err = {0};
    CHECK_U64(t, admission_ask(TF_OP_SERVE, 3, false, &err), TF_REFUSED);
    CHECK_U64(t, err.word, TF_W_NEEDS_SIGN_OFF);
    err = (tf_error){0};
    CHECK_U64(t, admission_ask(TF_OP_SERVE, 3, true, &err), TF_OK);
}

static void every_other_world_is_refused_everywhere(check_case *t) {
    for (uint32_t world = 0; world <= TF_WORLD_MAX + 50; world++) {
        if (is_even_world(world) || world == 3) continue;
        for (int op = 0; op < (int)TF_OP_COUNT; op++) {
            tf_error err = {0};
            CHECKF(t, admission_of((tf_op)op, world) == ADMIT_NO, "%s at %u is admitted",
                   admission_op_name((tf_op)op), world);
            CHECK_U64(t, admission_ask((tf_op)op, world, true, &err), TF_REFUSED);
            CHECK_U64(t, err.word, TF_W_WORLD_NOT_ADMITTED);
        }
    }
}

static void a_refusal_lists_the_admitted_worlds(check_case *t) {
    tf_error err = {0};
    admission_ask(TF_OP_PLAN, 5, false, &err);
    CHECK_STR(t, err.what, "asking for plan");
    CHECK_STR(t, err.found, "5 ranks");
    CHECK_STR(t, err.expected, "1, 2, 3, 4, 8");
    CHECK_STR(t, err.remedy, "use a world of 1, 2, 3, 4, 8");
    err = (tf_error){0};
    admission_ask(TF_OP_SERVE, 5, false, &err);
    CHECK_STR(t, err.expected, "1, 2, 3 (signed off), 4, 8");
}

typedef struct {
    uint32_t asked;
    tf_op op;
    uint32_t world;
} seen;

static void note(void *context, tf_op op, uint32_t world) {
    seen *s = context;
    *s = (seen){s->asked + 1, op, world};
}

static void a_spy_sees_every_question(check_case *t) {
    seen s = {0, TF_OP_PLAN, 0};
    tf_error err = {0};
    admission_spy(note, &s);
    admission_ask(TF_OP_GATE, 3, false, &err);
    admission_ask(TF_OP_FORWARD, 7, false, &err);
    admission_spy(NULL, NULL);
    admission_ask(TF_OP_PLAN, 1, false, &err);
    CHECK_U64(t, s.asked, 2);
    CHECK_U64(t, s.op, TF_OP_FORWARD);
    CHECK_U64(t, s.world, 7);
}

static void the_table_prints_as_it_decides(check_case *t) {
    tf_text text = {0}, json = {0};
    admission_describe(false, &text);
    admission_describe(true, &json);
    CHECK(t, strstr(text_str(&text),
                    "\nserve         yes     yes     signed  yes     yes     no\n") != NULL);
    CHECK(t, strstr(text_str(&text),
                    "\nplan          yes     yes     yes     yes     yes     no\n") != NULL);
    CHECK(t, strstr(text_str(&json), "{\"worlds\":[1,2,3,4,8],\"other_worlds\":\"no\"") != NULL);
    CHECK(t, strstr(text_str(&json), "\"serve\":{\"1\":\"yes\",\"2\":\"yes\",\"3\":\"signed\"") !=
                 NULL);
    text_free(&text);
    text_free(&json);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"admission/worlds-1-2-4-8-are-open-for-everything",
         worlds_1_2_4_8_are_open_for_everything},
        {"admission/world-3-is-open-for-everything-but-serve",
         world_3_is_open_for_everything_but_serve},
        {"admission/serving-three-ranks-needs-a-sign-off", serving_three_ranks_needs_a_sign_off},
        {"admission/every-other-world-is-refused-everywhere",
         every_other_world_is_refused_everywhere},
        {"admission/a-refusal-lists-the-admitted-worlds", a_refusal_lists_the_admitted_worlds},
        {"admission/the-table-prints-as-it-decides", the_table_prints_as_it_decides},
        {"admission/a-spy-sees-every-question", a_spy_sees_every_question},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
