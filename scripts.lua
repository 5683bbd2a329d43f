-- The script book: every run that `tfverify run NAME` can carry out.
-- A run says what to prove, never how.  To add one, copy one.  `tfverify help script` lists what
-- can be used here; `tfverify run` lists the runs.

-- How an earlier revision of this project is built, for `tfverify pins capture --base REV`.
tf.project { build = "./bootstrap", tool = "build/tfverify" }

-- Everything the engine makes, held against the texts in pins/.
local function pins(t, a)
  for case in tf.ranks(a) do          -- one case for every pack, world and rank
    local plan = tf.plan(case)        -- who owns which bytes
    t:pin(plan)
    if plan.pack.data then            -- flash is headers alone: there is nothing to cut
      t:pin(tf.rank_files(plan))
    end
    for _, phase in ipairs { "decode", "prefill", "draft", "prefetch" } do
      t:pin(tf.emit(plan, phase))     -- the calls a rank would execute
    end
    if case.rank == 0 then t:pin(tf.needs(case)) end -- kernels of the whole world
  end
end

-- What people say about the split of the real model in a sentence, as numbers.
local function shares(t)
  local heads, vocabulary = { 24, 24, 16 }, { 337, 337, 336 }
  for i = 1, 3 do
    local plan = tf.plan { pack = "flash", world = 3, rank = i - 1 }
    local who = "rank " .. plan.rank .. " of 3: "
    t:is(plan.heads, heads[i], who .. heads[i] .. " heads")
    t:is(plan.expert_width, 768, who .. "768 of each expert's width")
    t:is(plan.vocab, vocabulary[i] * 128, who .. vocabulary[i] .. " blocks of vocabulary")
  end
end

-- What must stay closed.
local function refusals(t)
  for _, world in ipairs { 0, 5, 6, 7, 9, 300 } do
    t:refuses("world-not-admitted", function()
      tf.plan { pack = "tiny-bf16", world = world, rank = 0 }
    end, "world " .. world .. " is closed")
  end
  t:refuses("bad-rank", function()
    tf.plan { pack = "tiny-bf16", world = 3, rank = 3 }
  end, "world 3 has no rank 3")
end

-- A prompt of a length, the same for everybody.
local function prompt(length)
  local ids = {}
  for i = 1, length do ids[i] = (i * 7919 + length) % 1280 end
  return ids
end

-- The same bits of every logit, however the model is cut, scheduled, computed or fed.
local function forward(t, a)
  local packs = a.pack == "all" and { "tiny-bf16", "tiny-exl3" } or { a.pack }
  for _, pack in ipairs(packs) do
    for _, profile in ipairs { "f32", "bf16" } do
      -- Fields beside the defaults: world 1, whole prompt, one thread a core, best instructions.
      local function run(fields)
        local r = { pack = pack, profile = profile, ids = prompt(40), tokens = 24 }
        for k, v in pairs(fields) do r[k] = v end
        return tf.forward(r)
      end
      local one = run {}
      t:case(pack .. "-" .. profile, function()
        t:pin(one)                      -- any machine can check it
        for _, world in ipairs { 2, 3, 4 } do
          t:equal_bits(run { world = world }, one, "world " .. world)
        end
        t:equal_bits(run { world = 3, weights = { 2, 1, 1 } }, one, "world 3 by weights 2,1,1")
        t:equal_bits(run { world = 3, delay = 50 }, one, "world 3, ranks delayed at random")
        for _, chunk in ipairs { 1, 7, 16, 33 } do
          t:equal_bits(run { chunk = chunk }, one, "chunks of " .. chunk)
        end
        for _, threads in ipairs { 1, 2, 3 } do
          t:equal_bits(run { threads = threads }, one, threads .. " threads")
        end
        for _, isa in ipairs(tf.isas()) do
          t:equal_bits(run { isa = isa, tokens = 2, ids = prompt(5) },
                       run { tokens = 2, ids = prompt(5) }, isa)
        end
      end)
    end
  end
end

run "pins" {
  about = "plans, rank files and emitted calls of every pack and world against pins/",
  args  = { pack = "all", world = "all" },
  test  = pins,
}

run "shares" {
  about = "heads, widths and vocabulary of the real model at world 3",
  test  = shares,
}

run "refusals" {
  about = "worlds and ranks that must stay closed",
  test  = refusals,
}

run "forward" {
  about = "logits of every row: pinned, and the same bits at every world, chunk, thread, instruction",
  args  = { pack = "all" },
  test  = forward,
}

-- A report, not a check: nothing fails on a time.
run "bench" {
  about = "what plans, calls, the store and rank files cost, beside their limits (rows=plan,emit,...)",
  args  = { rows = "plan emit store files pins dot forward" },
  test  = function(t, a)
    for row in a.rows:gmatch("[^,%s]+") do
      t:note(tf.command("build/tests/bench build/bench " .. row, { seconds = 600 }).out)
      t:ok(true, row)
    end
  end,
}

run "all" {
  about = "shares, refusals and pins",
  args  = { pack = "all", world = "all" },
  test  = function(t, a)
    t:case("shares", shares)
    t:case("refusals", refusals)
    pins(t, a)
  end,
}
