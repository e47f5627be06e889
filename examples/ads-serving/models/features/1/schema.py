"""Inputs of the ads ranking service, in the order the ad client sends them.

Keep in step with ../config.pbtxt and ../../ads_ensemble/config.pbtxt.
"""

# one row per request -------------------------------------------------------

USER_COUNTS = [  # int64
    "user_sessions_1d",
    "user_sessions_7d",
    "user_sessions_30d",
    "user_impressions_1h",
    "user_impressions_24h",
    "user_impressions_7d",
    "user_clicks_1h",
    "user_clicks_24h",
    "user_clicks_7d",
    "user_installs_7d",
    "user_installs_30d",
    "user_purchases_30d",
    "user_level_reached",
]

USER_VALUES = [  # fp32
    "user_session_seconds",
    "user_avg_session_seconds_7d",
    "user_spend_30d_usd",
    "user_spend_lifetime_usd",
    "user_avg_purchase_usd",
    "user_ad_revenue_7d_usd",
    "user_ad_revenue_30d_usd",
    "user_seconds_since_last_ad",
    "user_free_storage_gb",
    "user_screen_width_px",
    "user_screen_height_px",
    "user_network_mbps",
    "ctx_floor_price_usd",
]

USER_RATES = [  # fp32
    "user_ctr_1h",
    "user_ctr_24h",
    "user_ctr_7d",
    "user_ctr_30d",
    "user_cvr_7d",
    "user_cvr_30d",
    "ctx_placement_ctr_7d",
    "ctx_publisher_ctr_7d",
]

USER_TIMES = [  # int64, epoch seconds, 0 = never
    "user_install_ts",
    "user_last_session_ts",
    "user_last_click_ts",
    "user_last_install_ts",
    "user_last_purchase_ts",
]

REQUEST_TIME = "ctx_request_ts"

USER_STRINGS = [
    "user_country",
    "user_city",
    "user_language",
    "user_device_model",
    "user_device_brand",
    "user_os_name",
    "user_os_version",
    "user_carrier",
    "user_connection_type",
    "user_age_bucket",
    "user_segment",
    "ctx_publisher_app",
    "ctx_publisher_category",
    "ctx_placement",
    "ctx_ad_format",
    "ctx_store",
]

# 16 to 20 events, newest first
HISTORY = [
    "hist_creative_id",  # int64
    "hist_advertiser",  # string
    "hist_category",  # string
    "hist_ts",  # int64
    "hist_dwell_seconds",  # fp32
]

USER_INTERESTS = "user_interest_ids"  # int64, up to 30
USER_INSTALLED = "user_installed_categories"  # string, up to 12

# one row per request, added since the launch ------------------------------
#
# Sent since SDK 6.2; optional in config.pbtxt until the last older client was gone.

USER_COUNTS_V2 = [  # int64
    "user_rewarded_completed_7d",
    "user_ads_skipped_7d",
    # this session
    "sess_impressions",
    "sess_clicks",
    "sess_ads_skipped",
    "sess_rewarded_completed",
    # user x publisher
    "user_pub_sessions_7d",
    "user_pub_impressions_24h",
    "user_pub_impressions_7d",
    "user_pub_impressions_30d",
    "user_pub_clicks_7d",
    "user_pub_clicks_30d",
    # user x category of the publisher
    "user_cat_impressions_7d",
    "user_cat_impressions_30d",
    "user_cat_clicks_7d",
    "user_cat_installs_30d",
    # user x ad format
    "user_fmt_impressions_7d",
    "user_fmt_completed_7d",
    "user_fmt_skipped_7d",
    # device
    "dev_impressions_24h",
    "dev_installs_30d",
    "dev_uninstalls_30d",
    # placement
    "plc_impressions_1h",
    "plc_impressions_24h",
    "plc_impressions_7d",
    "plc_clicks_24h",
    "plc_clicks_7d",
    "plc_installs_7d",
    # publisher
    "pub_impressions_24h",
    "pub_clicks_24h",
    "pub_installs_7d",
]

USER_VALUES_V2 = [  # fp32
    "user_predicted_ltv_usd",
    "user_battery_pct",
    "sess_avg_ad_seconds",
    "sess_seconds_since_last_click",
    "user_pub_seconds_7d",
    "user_pub_spend_30d_usd",
    "user_pub_ad_revenue_30d_usd",
    "user_cat_seconds_7d",
    "user_cat_spend_30d_usd",
    "dev_memory_gb",
    "dev_age_days",
    "dev_avg_fps_7d",
    "plc_ecpm_24h_usd",
    "plc_ecpm_7d_usd",
    "pub_ecpm_7d_usd",
    "pub_arpu_7d_usd",
    "geo_ecpm_7d_usd",
    "geo_cpi_7d_usd",
]

USER_RATES_V2 = [  # fp32
    "user_skip_rate_7d",
    "user_completion_rate_7d",
    "sess_skip_rate",
    "user_pub_ctr_7d",
    "user_pub_ctr_30d",
    "user_pub_cvr_30d",
    "user_cat_ctr_7d",
    "user_cat_cvr_30d",
    "user_fmt_ctr_7d",
    "user_fmt_completion_rate_7d",
    "dev_ctr_7d",
    "dev_cvr_30d",
    "plc_ctr_24h",
    "plc_cvr_7d",
    "plc_completion_rate_7d",
    "plc_fill_rate_24h",
    "pub_cvr_7d",
    "geo_ctr_7d",
    "geo_cvr_7d",
]

USER_TIMES_V2 = [  # int64, epoch seconds, 0 = never
    "sess_start_ts",
    "user_pub_last_seen_ts",
    "user_cat_last_click_ts",
]

USER_STRINGS_V2 = [
    "sess_entry_point",
    "ctx_sdk_version",
]

# one row per candidate -----------------------------------------------------

CANDIDATE_STRINGS = [
    "cand_advertiser",
    "cand_campaign",
    "cand_category",
    "cand_subcategory",
    "cand_creative_type",
    "cand_theme",
    "cand_language",
    "cand_cta_text",
    "cand_bid_type",
    "cand_orientation",
]

CANDIDATE_RATES = [  # fp32
    "cand_ctr_1h",
    "cand_ctr_24h",
    "cand_ctr_7d",
    "cand_ctr_30d",
    "cand_cvr_24h",
    "cand_cvr_7d",
    "cand_cvr_30d",
    "cand_completion_rate_7d",
    "cand_skip_rate_7d",
    "cand_retention_d1",
    "cand_retention_d7",
    "cand_win_rate_24h",
    "cand_fill_rate_24h",
]

CANDIDATE_VALUES = [  # fp32
    "cand_bid_usd",
    "cand_daily_budget_usd",
    "cand_budget_left_usd",
    "cand_spend_1h_usd",
    "cand_spend_24h_usd",
    "cand_ecpm_24h_usd",
    "cand_cpi_7d_usd",
    "cand_target_cpi_usd",
    "cand_arpu_d7_usd",
    "cand_app_rating",
    "cand_app_size_mb",
    "cand_video_seconds",
    "cand_width_px",
    "cand_height_px",
    "cand_price_usd",
]

CANDIDATE_COUNTS = [  # int64
    "cand_impressions_1h",
    "cand_impressions_24h",
    "cand_impressions_7d",
    "cand_clicks_7d",
    "cand_installs_7d",
    "cand_rating_count",
]

CANDIDATE_TIMES = [  # int64, epoch seconds, 0 = never
    "cand_campaign_start_ts",
    "cand_creative_created_ts",
    "cand_last_served_ts",
]

# since SDK 6.2, see above

CANDIDATE_RATES_V2 = [  # fp32
    "cand_viewability_7d",
    "cand_fraud_rate_7d",
    "cand_ctr_country_7d",
    "cand_ctr_device_7d",
    "cand_ctr_placement_7d",
    "cand_ctr_segment_7d",
    "cand_cvr_country_7d",
    "cand_ctr_publisher_7d",
    "cand_cvr_device_7d",
    "cand_cvr_placement_7d",
]

CANDIDATE_VALUES_V2 = [  # fp32
    "cand_arpu_d30_usd",
    "cand_endcard_seconds",
    "cand_similarity",
    "cand_pacing_multiplier",
    "cand_quality_score",
    "cand_ecpm_country_7d_usd",
]

CANDIDATE_ID = "cand_creative_id"  # int64
CANDIDATE_TAGS = "cand_tag_ids"  # int64, 5 per candidate, 0 = padding

# encodings -----------------------------------------------------------------

HISTORY_SENT = 20  # the client sends up to this many events
HISTORY_LENGTH = 16  # the ranker attends to the newest ones
INTEREST_LENGTH = 30
TAGS_PER_CANDIDATE = 5
ITEM_BUCKETS = 20000

# vocabulary file of each string feature; ids start at 1, 0 = unknown or empty
VOCABULARY = {
    "user_country": "country",
    "user_city": "city",
    "user_language": "language",
    "user_device_model": "device_model",
    "user_device_brand": "device_brand",
    "user_os_name": "os_name",
    "user_os_version": "os_version",
    "user_carrier": "carrier",
    "user_connection_type": "connection_type",
    "user_age_bucket": "age_bucket",
    "user_segment": "segment",
    "ctx_publisher_app": "publisher_app",
    "ctx_publisher_category": "category",
    "ctx_placement": "placement",
    "ctx_ad_format": "ad_format",
    "ctx_store": "store",
    "sess_entry_point": "entry_point",
    "ctx_sdk_version": "sdk_version",
    "cand_advertiser": "advertiser",
    "cand_category": "category",
    "cand_subcategory": "subcategory",
    "cand_creative_type": "creative_type",
    "cand_theme": "theme",
    "cand_language": "language",
    "cand_cta_text": "cta_text",
    "cand_bid_type": "bid_type",
    "cand_orientation": "orientation",
}

# too many values for a vocabulary: CRC-32 of the UTF-8 bytes, modulo the bucket count
HASHED = {
    "cand_campaign": 4000,
}
