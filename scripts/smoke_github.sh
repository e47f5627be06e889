#!/usr/bin/env bash
# Steps 1, 6 and 14 of docs/smoke.md, on a sandbox repository on github.com.
# NOT RUN: it has never been tried against github.com. It needs gh, logged in as a maintainer.
set -euo pipefail

repository=${1:?usage: scripts/smoke_github.sh OWNER/NAME [PULL]}
pull=${2:-}
workflow=fvec.yml

newest() { gh run list --repo "$repository" --workflow "$workflow" --limit 1 --json databaseId --jq '.[0].databaseId // 0'; }

watch_next() { # until a run newer than $1 has ended
  local before=$1 now
  for _ in {1..30}; do
    now=$(newest)
    if [ "$now" != "$before" ]; then break; fi
    sleep 5
  done
  if [ "$now" = "$before" ]; then echo "no run of $workflow began" >&2; exit 1; fi
  gh run watch "$now" --repo "$repository" --exit-status
}

if [ -z "$pull" ]; then
  echo "1. dispatch $workflow"
  before=$(newest)
  gh workflow run "$workflow" --repo "$repository"
  watch_next "$before"
  gh pr list --repo "$repository" --search 'head:fvec/' --json number,title,isDraft,headRefName
  exit
fi

echo "6. /fvec rerun on #$pull"
before=$(newest)
gh pr comment "$pull" --repo "$repository" --body '/fvec rerun'
watch_next "$before"
gh pr view "$pull" --repo "$repository" --json comments --jq '.comments[] | [.author.login, .body[:80]] | @tsv'
gh pr checks "$pull" --repo "$repository"

read -r -p "14. merge #$pull? [y/N] " answer
if [ "$answer" = y ]; then
  before=$(newest)
  gh pr ready "$pull" --repo "$repository"
  gh pr merge "$pull" --repo "$repository" --squash
  watch_next "$before"
  gh pr list --repo "$repository" --search 'head:fvec/' --json number,title,baseRefName
fi
