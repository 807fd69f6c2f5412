-- Asks for one address after the other, of a file with one on each line; the file is named in RUNLOG_PATHS.
local paths = {}
for line in io.lines(os.getenv("RUNLOG_PATHS")) do paths[#paths + 1] = line end
local at = 0
request = function()
  at = at % #paths + 1
  return wrk.format("GET", paths[at])
end
response = function(status) if status ~= 200 then print("status " .. status) end end
