#!/usr/bin/env bash
# Parts of docs/smoke.md, on a sandbox repository on github.com.
#   smoke_github.sh OWNER/NAME         dispatch the workflow, wait for it, list what it opened
#   smoke_github.sh OWNER/NAME PULL    steps 7 and 15: rerun that pull request, then merge it if you say so
# NOT RUN: it has never been tried against github.com. It needs gh, logged in as a maintainer.
set -euo pipefail

repository=${1:?usage: scripts/smoke_github.sh OWNER/NAME [PULL]}
pull=${2:-}
workflow=fvec.yml

newest() { gh run list --repo "$repository" --workflow "$workflow" --limit 1 --json databaseId --jq '.[0].databaseId // 0'; }

watch_next() { # until a run newer than $1 has ended, well or not
  local before=$1 now
  for _ in {1..30}; do
    now=$(newest)
    if [ "$now" != "$before" ]; then break; fi
    sleep 5
  done
  if [ "$now" = "$before" ]; then echo "no run of $workflow began" >&2; exit 1; fi
  gh run watch "$now" --repo "$repository" --exit-status || echo "run $now did not end well: gh run view $now --log-failed"
}

opened() { gh pr list --repo "$repository" --search 'head:fvec/' --json number,title,isDraft,headRefName,baseRefName; }

if [ -z "$pull" ]; then
  echo "dispatch $workflow"
  before=$(newest)
  gh workflow run "$workflow" --repo "$repository"
  watch_next "$before"
  opened
  exit
fi

echo "7. /fvec rerun on #$pull"
before=$(newest)
gh pr comment "$pull" --repo "$repository" --body '/fvec rerun'
watch_next "$before"
gh pr view "$pull" --repo "$repository" --json comments --jq '.comments[] | [.author.login, .body[:80]] | @tsv'
# It ends with 1 for a check that failed and 8 for one that waits: both are answers here.
gh pr checks "$pull" --repo "$repository" || echo "not all checks are green (status $?)"

read -r -p "15. merge #$pull? [y/N] " answer
if [ "$answer" = y ]; then
  before=$(newest)
  gh pr ready "$pull" --repo "$repository"
  gh pr merge "$pull" --repo "$repository" --squash
  watch_next "$before"
  opened
fi
