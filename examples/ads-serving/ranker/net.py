"""Two-tower click and install model with target attention over the user's ad history."""

import torch
from torch import nn

EMBEDDING_DIM = 64  # items, tags and interests
CATEGORY_DIM = 8

USER_DENSE = 115
CANDIDATE_DENSE = 68
ITEMS = 20_000
TAGS = 2_000
INTERESTS = 1_000

# one table per categorical column, in the order that the features model emits them
USER_CATEGORIES = [64, 128, 48, 512, 64, 8, 64, 64, 8, 16, 32, 1024, 64, 32, 8, 8, 16, 32, 32, 8]
CANDIDATE_CATEGORIES = [
    *[1024, 4000, 64, 256, 16, 32, 48, 64, 8, 8],
    8,  # weekday of the launch
]


class CategoryEmbeddings(nn.Module):
    """One small table per column, concatenated."""

    def __init__(self, sizes):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(size, CATEGORY_DIM) for size in sizes])

    def forward(self, ids):
        columns = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return torch.cat(columns, dim=1)


class TargetAttention(nn.Module):
    """Attention of the candidate over the history, as in DIN (no softmax)."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.hidden = nn.Linear(4 * dim, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, candidates, history, mask):
        n, length, dim = candidates.shape[0], history.shape[0], history.shape[1]
        query = candidates.unsqueeze(1).expand(n, length, dim)
        keys = history.unsqueeze(0).expand(n, length, dim)
        pairs = torch.cat([query, keys, query - keys, query * keys], dim=-1)
        weights = self.out(torch.sigmoid(self.hidden(pairs))).squeeze(-1)
        weights = weights * mask.unsqueeze(0)
        return weights @ history


class AdsRanker(nn.Module):
    """Scores the N candidates of one request.

    All inputs are those of one request, without a batch dimension. Returns the probability of
    a click, of an install after the click, and the expected revenue of an impression in USD,
    each float32[N].
    """

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS, EMBEDDING_DIM)
        self.tags = nn.Embedding(TAGS, EMBEDDING_DIM)
        self.interests = nn.Embedding(INTERESTS, EMBEDDING_DIM)
        self.user_categories = CategoryEmbeddings(USER_CATEGORIES)
        self.candidate_categories = CategoryEmbeddings(CANDIDATE_CATEGORIES)

        user_in = USER_DENSE + CATEGORY_DIM * len(USER_CATEGORIES) + EMBEDDING_DIM
        item_in = CANDIDATE_DENSE + CATEGORY_DIM * len(CANDIDATE_CATEGORIES) + 2 * EMBEDDING_DIM
        self.user_tower = nn.Sequential(
            nn.Linear(user_in, 128), nn.ReLU(), nn.Linear(128, EMBEDDING_DIM)
        )
        self.item_tower = nn.Sequential(
            nn.Linear(item_in, 64), nn.ReLU(), nn.Linear(64, EMBEDDING_DIM)
        )
        self.attention = TargetAttention(EMBEDDING_DIM, 16)
        self.head = nn.Sequential(nn.Linear(4 * EMBEDDING_DIM, 32), nn.ReLU(), nn.Linear(32, 2))

    def mean_interest(self, ids, mask):
        total = nn.functional.embedding_bag(
            ids.unsqueeze(0),
            self.interests.weight,
            mode="sum",
            per_sample_weights=mask.unsqueeze(0),
        )
        return total.squeeze(0) / mask.sum().clamp(min=1.0)

    def mean_tag(self, ids):
        mask = (ids > 0).to(torch.float32)
        total = (self.tags(ids) * mask.unsqueeze(-1)).sum(dim=1)
        return total / mask.sum(dim=1, keepdim=True).clamp(min=1.0)

    def forward(self, *inputs):
        user_dense, user_cats, hist_items, hist_mask, interest_ids, interest_mask = inputs[:6]
        cand_dense, cand_cats, cand_items, cand_tags, cand_bid = inputs[6:]
        interest = self.mean_interest(interest_ids, interest_mask)
        user_cat = self.user_categories(user_cats.unsqueeze(0)).squeeze(0)
        user = self.user_tower(torch.cat([user_dense, user_cat, interest]))

        item = self.items(cand_items)
        tag = self.mean_tag(cand_tags)
        candidate_cat = self.candidate_categories(cand_cats)
        candidate = self.item_tower(torch.cat([cand_dense, candidate_cat, item, tag], dim=1))

        attended = self.attention(item, self.items(hist_items), hist_mask)
        user = user.unsqueeze(0).expand_as(candidate)
        joint = torch.cat([user, candidate, user * candidate, attended], dim=1)
        logits = self.head(joint)
        pctr = torch.sigmoid(logits[:, 0])
        pcvr = torch.sigmoid(logits[:, 1])
        return pctr, pcvr, cand_bid * pctr * pcvr


def build_ranker(seed=20):
    """Returns the ranker with seeded weights, in eval mode."""
    torch.manual_seed(seed)
    model = AdsRanker()
    with torch.no_grad():
        for table in model.modules():
            if isinstance(table, nn.Embedding):
                table.weight.mul_(0.2)
        model.head[-1].weight.mul_(8.0)
        # base rates of the last training window: 4 % clicks, 10 % installs per click
        model.head[-1].bias.copy_(torch.tensor([-3.2, -2.2]))
    return model.eval()
